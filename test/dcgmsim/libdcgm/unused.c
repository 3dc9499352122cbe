// What go-dcgm links and the health agent never calls. All of it must be here: cgo leaves
// every function of go-dcgm to the dynamic linker, and one that is missing ends the process
// when it is called. The headers are left out, so that one shape serves all.

#define UNUSED(function) \
    int function(void)   \
    {                    \
        return -6; /* DCGM_ST_NOT_SUPPORTED */ \
    }

UNUSED(dcgmAttachDriver)
UNUSED(dcgmCreateFakeEntities)
UNUSED(dcgmDetachDriver)
UNUSED(dcgmEntitiesGetLatestValues)
UNUSED(dcgmEntityGetLatestValues)
UNUSED(dcgmGetAllDevices)
UNUSED(dcgmGetAllSupportedDevices)
UNUSED(dcgmGetCpuHierarchy)
UNUSED(dcgmGetCpuHierarchy_v2)
UNUSED(dcgmGetDeviceAttributes)
UNUSED(dcgmGetDeviceTopology)
UNUSED(dcgmGetGpuInstanceHierarchy)
UNUSED(dcgmGetLatestValuesForFields)
UNUSED(dcgmGetNvLinkP2PStatus)
UNUSED(dcgmGetPidInfo)
UNUSED(dcgmGroupAddDevice)
UNUSED(dcgmGroupGetInfo)
UNUSED(dcgmInjectFieldValue)
UNUSED(dcgmIntrospectGetHostengineCpuUtilization)
UNUSED(dcgmIntrospectGetHostengineMemoryUsage)
UNUSED(dcgmPolicyGet)
UNUSED(dcgmPolicyRegister_v2)
UNUSED(dcgmPolicySet)
UNUSED(dcgmPolicyUnregister)
UNUSED(dcgmProfGetSupportedMetricGroups)
UNUSED(dcgmRunDiagnostic)
UNUSED(dcgmWatchPidFields)

void *dcgmGetErrorMeta(void)
{
    return 0;
}
