// What is read of an engine that works.

//go:build linux && cgo && !nodcgm

package dcgm

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/health"
	"github.com/lockstep-dev/lockstep/test/dcgmsim"
)

// at watches other fields.
func at(fields ...health.Field) func(*Options) { return func(o *Options) { o.Fields = fields } }

// after many seconds nothing that was read before is believed any more.
const longAgo = 31 * time.Second

func TestFields(t *testing.T) {
	const packedLink = 0x01000101 // GPU 1, link 1: type 1, index 1, GPU 1
	tests := map[string]struct {
		field health.Field
		kind  health.Kind
		id    string
		say   func(*dcgmsim.State)
		want  string
	}{
		"a number":                  {202, health.KindGPU, "GPU-a", func(s *dcgmsim.State) { s.SetField(dcgmsim.GPU, 0, 202, 7) }, "7"},
		"of the other GPU":          {202, health.KindGPU, "GPU-b", func(s *dcgmsim.State) { s.SetField(dcgmsim.GPU, 1, 202, 8) }, "8"},
		"zero":                      {202, health.KindGPU, "GPU-a", func(s *dcgmsim.State) { s.SetField(dcgmsim.GPU, 0, 202, 0) }, "0"},
		"a fraction":                {1216, health.KindGPU, "GPU-a", func(s *dcgmsim.State) { s.SetField(dcgmsim.GPU, 0, 1216, 1.5e-13) }, "1.5e-13"},
		"blank":                     {202, health.KindGPU, "GPU-a", func(s *dcgmsim.State) { s.BlankField(dcgmsim.GPU, 0, 202) }, "blank"},
		"a blank fraction":          {1216, health.KindGPU, "GPU-a", func(s *dcgmsim.State) { s.BlankDouble(dcgmsim.GPU, 0, 1216) }, "blank"},
		"a text":                    {57, health.KindGPU, "GPU-a", func(s *dcgmsim.State) { s.SetField(dcgmsim.GPU, 0, 57, "00:1") }, "blank"},
		"an error for a value":      {202, health.KindGPU, "GPU-a", func(s *dcgmsim.State) { s.FailField(dcgmsim.GPU, 0, 202, -8) }, "blank"},
		"nothing at all":            {202, health.KindGPU, "GPU-a", func(s *dcgmsim.State) { s.SilenceField(dcgmsim.GPU, 0, 202) }, "blank"},
		"what the engine lacks":     {202, health.KindGPU, "GPU-a", func(s *dcgmsim.State) { s.UnknownField(202) }, "blank"},
		"what cannot be read":       {202, health.KindGPU, "GPU-a", func(s *dcgmsim.State) { s.UnwatchField(dcgmsim.GPU, 0, 202) }, "blank"},
		"but of the other it can":   {202, health.KindGPU, "GPU-b", func(s *dcgmsim.State) { s.UnwatchField(dcgmsim.GPU, 0, 202); s.SetField(dcgmsim.GPU, 1, 202, 3) }, "3"},
		"what libdcgm lacks":        {60000, health.KindGPU, "GPU-a", func(*dcgmsim.State) {}, "absent"},
		"of a switch":               {856, health.KindSwitch, "2", func(s *dcgmsim.State) { s.AddSwitch(2); s.SetField(dcgmsim.Switch, 2, 856, 11) }, "11"},
		"of a switch, without one":  {856, health.KindSwitch, "2", func(*dcgmsim.State) {}, "absent"},
		"of an adapter":             {1300, health.KindNIC, "connectx-4", func(s *dcgmsim.State) { s.AddConnectX(4); s.SetField(dcgmsim.ConnectX, 4, 1300, 2) }, "2"},
		"of a CPU":                  {1110, health.KindNode, "", func(*dcgmsim.State) {}, "absent"},
		"of a link":                 {1527, health.KindNVLink, "GPU-b/1", func(s *dcgmsim.State) { s.SetField(dcgmsim.Link, packedLink, 1527, 4) }, "4"},
		"of a link that is not one": {1527, health.KindNVLink, "GPU-b/2", func(s *dcgmsim.State) { s.SetField(dcgmsim.Link, packedLink, 1527, 4) }, "absent"},
		"of the host":               {1503, health.KindNode, "", func(s *dcgmsim.State) { s.SetField(dcgmsim.Node, 0, 1503, 5) }, "5"},
		"of the host, not of a GPU": {1503, health.KindGPU, "GPU-a", func(s *dcgmsim.State) { s.SetField(dcgmsim.Node, 0, 1503, 5) }, "absent"},
		"MIG, asked for":            {67, health.KindGPU, "GPU-a", func(s *dcgmsim.State) { s.SetField(dcgmsim.GPU, 0, 67, 1) }, "1"},
		"MIG, under its own name":   {health.FieldMIG, health.KindGPU, "GPU-a", func(s *dcgmsim.State) { s.SetField(dcgmsim.GPU, 0, 67, 1) }, "1"},
		"not in MIG mode":           {health.FieldMIG, health.KindGPU, "GPU-a", func(s *dcgmsim.State) { s.SetField(dcgmsim.GPU, 0, 67, 0) }, "0"},
		"the GPU's status":          {health.FieldGPUStatus, health.KindGPU, "GPU-a", func(*dcgmsim.State) {}, "1"},
		"a link that is up":         {health.FieldLinkState, health.KindNVLink, "GPU-a/0", func(*dcgmsim.State) {}, "3"},
		"a link that is down":       {health.FieldLinkState, health.KindNVLink, "GPU-a/0", func(s *dcgmsim.State) { s.SetLink(0, 0, dcgmsim.LinkDown) }, "2"},
		"a link that is disabled":   {health.FieldLinkState, health.KindNVLink, "GPU-a/0", func(s *dcgmsim.State) { s.SetLink(0, 0, dcgmsim.LinkDisabled) }, "1"},
		"a link that there is not":  {health.FieldLinkState, health.KindNVLink, "GPU-a/0", func(s *dcgmsim.State) { s.SetLink(0, 0, dcgmsim.LinkNotSupported) }, "absent"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			r := aRig(t, at(tc.field))
			tc.say(r.engine)
			r.equal("at first", tc.want, reads(r.sample(), tc.kind, tc.id, tc.field))
			r.equal("and then", tc.want, reads(r.sample(), tc.kind, tc.id, tc.field))
		})
	}
}

func TestChangesAreSeen(t *testing.T) {
	r := aRig(t)
	value := func(s health.Sample) string { return reads(s, health.KindGPU, "GPU-a", 202) }
	r.engine.SetField(dcgmsim.GPU, 0, 202, 7)
	r.equal("at first", "7", value(r.sample()))
	r.engine.SetField(dcgmsim.GPU, 0, 202, 9)
	r.equal("changed", "9", value(r.sample()))
	r.engine.SilenceField(dcgmsim.GPU, 0, 202)
	r.equal("with nothing new", "9", value(r.sample()))
	r.equal("with nothing new for long", "blank", value(r.after(longAgo)))
	r.engine.SetField(dcgmsim.GPU, 0, 202, 11)
	r.equal("read again", "11", value(r.sample()))
	r.engine.BlankField(dcgmsim.GPU, 0, 202)
	r.equal("blank", "blank", value(r.sample()))
}

// More fields than fit in one group, of which some are unknown to the engine.
func TestManyFields(t *testing.T) {
	var fields []health.Field
	for f := health.Field(150); f < 500; f++ {
		fields = append(fields, f)
	}
	r := aRig(t, at(slices.Concat(fields, fields)...)) // twice the same is once
	for _, f := range []int{160, 277, 278, 451} {
		r.engine.UnknownField(f)
	}
	for _, f := range []int{150, 276, 279, 449} {
		r.engine.SetField(dcgmsim.GPU, 1, f, f)
	}
	s := r.sample()
	for _, f := range []health.Field{160, 277, 278, 451} {
		r.equal("unknown", "blank", reads(s, health.KindGPU, "GPU-b", f))
	}
	for want, f := range map[string]health.Field{"150": 150, "276": 276, "279": 279, "449": 449} {
		r.equal("known", want, reads(s, health.KindGPU, "GPU-b", f))
	}
	r.equal("notes of what is unknown", 4, len(r.reader.Notes()))
}

func TestXIDs(t *testing.T) {
	r := aRig(t)
	now := time.Now().Truncate(time.Microsecond)
	xid := func(gpu string, code int64, ago time.Duration) health.XID {
		return health.XID{GPU: gpu, Code: code, Time: now.Add(-ago)}
	}
	r.engine.XID(0, 31, now.Add(-2*time.Minute))
	r.equal("before the agent started", []health.XID{xid("GPU-a", 31, 2*time.Minute)}, r.sample().XIDs)
	r.equal("once", []health.XID(nil), r.sample().XIDs)

	r.engine.XID(1, 79, now.Add(-time.Second))
	r.engine.XID(0, 48, now.Add(-2*time.Second))
	want := []health.XID{xid("GPU-a", 48, 2*time.Second), xid("GPU-b", 79, time.Second)}
	r.equal("two, the older first", want, r.sample().XIDs)
	r.equal("once", []health.XID(nil), r.sample().XIDs)

	r.engine.XID(1, 79, now)
	r.engine.XID(1, 74, now)
	r.equal("the same code again, and two at one time", 2, len(r.sample().XIDs))

	r.engine.XID(0, 63, now.Add(-30*time.Second))
	r.equal("written down late", []health.XID{xid("GPU-a", 63, 30*time.Second)}, r.sample().XIDs)

	r.engine.XID(0, 0, now)
	r.equal("no error at all", []health.XID(nil), r.sample().XIDs)
}

// The calls of an ordinary poll are few, and none of them changes anything in the engine.
func TestAPollIsLight(t *testing.T) {
	r := aRig(t, at(202, 1527, 856))
	r.sample()
	r.engine.Trace()
	r.sample()
	r.equal("calls", "dcgmGetEntityGroupEntities dcgmGetGpuStatus dcgmGetGpuStatus "+
		"dcgmGetValuesSince_v2 dcgmGetValuesSince_v2 dcgmGetValuesSince_v2 dcgmGetNvLinkLinkStatus",
		strings.Join(r.engine.Calls(), " "))
}

// Fields can be changed while the engine is watched: what was known of XIDs stays.
func TestWatchOtherFields(t *testing.T) {
	r := aRig(t)
	r.engine.SetField(dcgmsim.GPU, 0, 202, 1)
	r.engine.SetField(dcgmsim.GPU, 0, 150, 40)
	r.engine.XID(0, 31, time.Now())
	r.equal("XIDs", 1, len(r.sample().XIDs))
	r.reader.Watch([]health.Field{150})
	s := r.sample()
	r.equal("watched before", "absent", reads(s, health.KindGPU, "GPU-a", 202))
	r.equal("watched now", "40", reads(s, health.KindGPU, "GPU-a", 150))
	r.equal("XIDs that are known already", 0, len(s.XIDs))
	r.engine.Trace()
	r.reader.Watch([]health.Field{150})
	r.sample()
	r.equal("connected for the same fields again", false, slices.Contains(r.engine.Calls(), "dcgmConnect_v2"))
}
