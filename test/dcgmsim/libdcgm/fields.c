// Fields: what they are, and what they read.

#include "groups.h"
#include <stdlib.h>
#include <string.h>

// Which kind of entity has a field: the ranges are those of DCGM's dcgmlib/src/dcgm_fields.cpp.
static dcgm_field_entity_group_t level_of(unsigned short id)
{
    static const struct {
        unsigned short from, to;
        dcgm_field_entity_group_t level;
    } ranges[] = {
        {1, 6, DCGM_FE_NONE},      {350, 363, DCGM_FE_NONE},  {1502, 1503, DCGM_FE_NONE}, {580, 592, DCGM_FE_LINK},
        {780, 824, DCGM_FE_LINK},  {865, 865, DCGM_FE_LINK},  {870, 878, DCGM_FE_LINK},   {1508, 1509, DCGM_FE_LINK},
        {1525, 1533, DCGM_FE_LINK}, {701, 707, DCGM_FE_SWITCH}, {856, 869, DCGM_FE_SWITCH}, {1524, 1524, DCGM_FE_SWITCH},
        {1300, 1310, DCGM_FE_CONNECTX}, {1110, 1141, DCGM_FE_CPU}, {230, 230, DCGM_FE_GPU_CI}, {54, 54, DCGM_FE_GPU_CI},
    };
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++)
        if (ranges[i].from <= id && id <= ranges[i].to)
            return ranges[i].level;
    return DCGM_FE_GPU;
}

int DcgmFieldsInit(void)
{
    return 0;
}

int DcgmFieldsTerm(void)
{
    return 0;
}

dcgm_field_meta_p DcgmFieldGetById(unsigned short id)
{
    static dcgm_field_meta_t meta[DCGM_FI_MAX_FIELDS];
    if (id == 0 || id >= DCGM_FI_MAX_FIELDS)
        return NULL;
    meta[id].fieldId = id;
    meta[id].fieldType = id == DCGM_FI_DEV_GPU_UUID ? DCGM_FT_STRING : DCGM_FT_INT64;
    meta[id].entityLevel = level_of(id);
    meta[id].scope = meta[id].entityLevel == DCGM_FE_NONE ? DCGM_FS_GLOBAL : DCGM_FS_ENTITY;
    return &meta[id];
}

static const struct sim_field *scripted(dcgmGroupEntityPair_t e, unsigned short field)
{
    for (int i = 0; i < sim.fields; i++) {
        const struct sim_field *f = &sim.field[i];
        bool global = f->level == DCGM_FE_NONE && level_of(field) == DCGM_FE_NONE;
        if (f->field == field && (global || (f->level == (int)e.entityGroupId && f->id == e.entityId)))
            return f;
    }
    return NULL;
}

static void set_value(dcgmFieldValue_v1 *v, const struct sim_field *f)
{
    v->fieldType = DCGM_FT_INT64;
    v->value.i64 = DCGM_INT64_NOT_SUPPORTED; // of a field that nobody scripted
    if (!f)
        return;
    if (strcmp(f->kind, "int") == 0) {
        v->value.i64 = atoll(f->text);
    } else if (strcmp(f->kind, "double") == 0) {
        v->fieldType = DCGM_FT_DOUBLE;
        v->value.dbl = atof(f->text);
    } else if (strcmp(f->kind, "blankdouble") == 0) {
        v->fieldType = DCGM_FT_DOUBLE;
        v->value.dbl = DCGM_FP64_NOT_FOUND;
    } else if (strcmp(f->kind, "string") == 0) {
        v->fieldType = DCGM_FT_STRING;
        strcpy(v->value.str, f->text);
    } else if (strcmp(f->kind, "status") == 0) {
        v->status = atoi(f->text);
        v->value.i64 = 0;
    }
}

struct reading {
    long long since, now;
    dcgmFieldValueEntityEnumeration_f callback;
    void *user;
};

static void emit(const struct reading *r, dcgmGroupEntityPair_t e, dcgmFieldValue_v1 *v)
{
    r->callback(e.entityGroupId, e.entityId, v, 1, r->user);
}

static void emit_xids(const struct reading *r, dcgmGroupEntityPair_t e)
{
    static dcgmFieldValue_v1 v;
    for (int i = 0; i < sim.xids; i++) {
        const struct sim_xid *x = &sim.xid[i];
        if (x->gpu != e.entityId || x->usec < r->since || x->usec > r->now)
            continue;
        memset(&v, 0, sizeof v);
        v.version = dcgmFieldValue_version1;
        v.fieldId = DCGM_FI_DEV_XID_ERROR;
        v.fieldType = DCGM_FT_INT64;
        v.ts = x->usec;
        v.value.i64 = x->code;
        emit(r, e, &v);
    }
}

static dcgmReturn_t emit_field(const struct reading *r, dcgmGroupEntityPair_t e, unsigned short field)
{
    static dcgmFieldValue_v1 v;
    const struct sim_entity *device = sim_entity(e.entityGroupId, e.entityId);
    const struct sim_field *f = scripted(e, field);
    if (f && strcmp(f->kind, "notwatched") == 0)
        return DCGM_ST_NOT_WATCHED; // ends the whole call (DCGM's dcgmlib/src/DcgmApi.cpp, helperGetValuesSince)
    if (field == DCGM_FI_DEV_XID_ERROR) {
        emit_xids(r, e);
        return DCGM_ST_OK;
    }
    if ((f && strcmp(f->kind, "nodata") == 0) || (e.entityGroupId != DCGM_FE_LINK && (!device || device->status != DcgmEntityStatusOk))
        || r->now < r->since)
        return DCGM_ST_OK; // of a device that is not there nothing is recorded, and of the future neither
    memset(&v, 0, sizeof v);
    v.version = dcgmFieldValue_version1;
    v.fieldId = field;
    v.ts = r->now;
    set_value(&v, f);
    if (field == DCGM_FI_DEV_GPU_UUID && !f) {
        v.fieldType = DCGM_FT_STRING;
        strcpy(v.value.str, device->uuid);
    }
    emit(r, e, &v);
    return DCGM_ST_OK;
}

dcgmReturn_t dcgmGetValuesSince_v2(dcgmHandle_t handle, dcgmGpuGrp_t group, dcgmFieldGrp_t fields, long long since,
                                   long long *next, dcgmFieldValueEntityEnumeration_f callback, void *user)
{
    ENTER_HANDLE(handle);
    struct sim_group *g = sim_group(group);
    struct sim_fieldgroup *f = sim_fieldgroup(fields);
    if (!g || !f)
        return sim_leave(DCGM_ST_NOT_CONFIGURED);
    if (!sim_watched(group, fields))
        return sim_leave(DCGM_ST_NOT_WATCHED);
    struct reading r = {since, sim_now(), callback, user};
    for (int i = 0; i < g->n; i++) {
        for (int j = 0; j < f->n; j++) {
            dcgmReturn_t rc = emit_field(&r, g->entity[i], f->field[j]);
            if (rc != DCGM_ST_OK)
                return sim_leave(rc);
        }
    }
    *next = r.now + 1;
    return sim_leave(DCGM_ST_OK);
}
