// The library, loaded before go-dcgm touches it.

//go:build linux && cgo && !nodcgm

package dcgm

/*
#cgo LDFLAGS: -ldl
#include <dlfcn.h>
#include <stdlib.h>
*/
import "C"

import (
	"fmt"
	"runtime"
	"strings"
	"unsafe"
)

// symbols are the functions that the adapter reaches through go-dcgm. go-dcgm leaves them
// to the dynamic linker (its admin.go: -Wl,--unresolved-symbols=ignore-in-object-files), so
// a call of one that is not there ends the process, and no recover helps.
var symbols = []string{
	"DcgmFieldGetById", "dcgmConnect_v2", "dcgmDisconnect", "dcgmFieldGroupCreate", "dcgmFieldGroupDestroy",
	"dcgmGetEntityGroupEntities", "dcgmGetGpuStatus", "dcgmGetNvLinkLinkStatus", "dcgmGetValuesSince_v2",
	"dcgmGroupAddEntity", "dcgmGroupCreate", "dcgmGroupDestroy", "dcgmHealthCheck", "dcgmHealthSet",
	"dcgmHostengineVersionInfo", "dcgmInit", "dcgmShutdown", "dcgmStartEmbedded", "dcgmStopEmbedded",
	"dcgmUpdateAllFields", "dcgmWatchFields", "errorString",
}

// load makes a library's functions known to the whole process. go-dcgm asks for
// libdcgm.so.4 afterwards, and is given this one, because its soname is the same. It is
// never unloaded.
func load(library string) error {
	runtime.LockOSThread() // dlerror tells the thread's own error
	defer runtime.UnlockOSThread()
	name := C.CString(library)
	defer C.free(unsafe.Pointer(name))
	handle := C.dlopen(name, C.RTLD_LAZY|C.RTLD_GLOBAL)
	if handle == nil {
		return fmt.Errorf("DCGM's library cannot be loaded: %s", C.GoString(C.dlerror()))
	}
	var missing []string
	for _, symbol := range symbols {
		name := C.CString(symbol)
		if C.dlsym(handle, name) == nil {
			missing = append(missing, symbol)
		}
		C.free(unsafe.Pointer(name))
	}
	if missing != nil {
		return fmt.Errorf("%s is not a DCGM 4 that this agent can use: it lacks %s", library, strings.Join(missing, ", "))
	}
	return nil
}
