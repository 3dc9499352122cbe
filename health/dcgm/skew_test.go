// Engines and libraries of other versions, and ways to reach an engine.

//go:build linux && cgo && !nodcgm

package dcgm

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/health"
	"github.com/lockstep-dev/lockstep/test/dcgmsim"
)

// nvlink is DCGM_HEALTH_WATCH_NVLINK, and failed DCGM_HEALTH_RESULT_FAIL (dcgm_structs.h).
const nvlink, failed = 2, 20

func linkDownCheck(s *dcgmsim.State, message string) {
	s.Incident(dcgmsim.GPU, 1, nvlink, failed, 14, message)
}

func TestAnEngineBefore46(t *testing.T) {
	linkState := func(s health.Sample, id string) string { return reads(s, health.KindNVLink, id, health.FieldLinkState) }
	for name, tc := range map[string]struct {
		skew    func(*dcgmsim.State)
		version string
	}{
		"an older engine":           {func(s *dcgmsim.State) { s.Version("4.5.3") }, "4.5.3"},
		"an engine without version": {func(s *dcgmsim.State) { s.Version("?") }, "?"},
		"an older library":          {func(s *dcgmsim.State) { s.Fail("dcgmGetNvLinkLinkStatus", -12) }, "4.6.0"},
	} {
		t.Run(name, func(t *testing.T) {
			r := aRig(t, at(202, 1527))
			tc.skew(r.engine)
			r.engine.SetField(dcgmsim.GPU, 0, 202, 1)
			r.engine.XID(0, 74, time.Now().Add(-time.Second))
			s := r.sample()
			r.equal("fields", "1 1", state(s, "GPU-a"))
			r.equal("XIDs", 1, len(s.XIDs))
			r.equal("version", tc.version, s.EngineVersion)
			r.equal("links, of which nothing is known", "absent", linkState(s, "GPU-b/1"))
			r.equal("says so", 1, len(r.reader.Notes()))

			linkDownCheck(r.engine, "GPU 1's NvLink link 1 is currently down. Run a field diagnostic.")
			s = r.sample()
			r.equal("down", "2", linkState(s, "GPU-b/1"))
			r.equal("another", "absent", linkState(s, "GPU-b/0"))
			r.engine.NoIncidents()
			r.equal("up again", "3", linkState(r.sample(), "GPU-b/1"))
			linkDownCheck(r.engine, "GPU 1's NvLink link 1 is currently down. Run a field diagnostic.")
			r.equal("down again", "2", linkState(r.sample(), "GPU-b/1"))
			r.engine.AddGPU(1, "GPU-b", dcgmsim.StatusLost)
			r.equal("of a lost GPU", "absent", linkState(r.sample(), "GPU-b/1"))
			linkDownCheck(r.engine, "something is down")
		})
	}
}

func TestHealthChecksAreNotNeeded(t *testing.T) {
	r := aRig(t)
	linkDownCheck(r.engine, "GPU 1's NvLink link 1 is currently down.")
	r.engine.Trace()
	r.equal("the link", "3", reads(r.sample(), health.KindNVLink, "GPU-b/1", health.FieldLinkState))
	r.equal("checked", false, slices.Contains(r.engine.Calls(), "dcgmHealthCheck"))
}

func TestWaysToReachAnEngine(t *testing.T) {
	for address, call := range map[string]string{
		"embedded":           "dcgmStartEmbedded",
		"unix:///run/dcgm.s": "dcgmConnect_v2",
		"10.0.0.1:5555":      "dcgmConnect_v2",
		"vsock://3:5555":     "dcgmConnect_v3",
	} {
		t.Run(address, func(t *testing.T) {
			at, err := ParseAddress(address)
			if err != nil {
				t.Fatal(err)
			}
			r := aRig(t, func(o *Options) { o.Address = at })
			r.engine.Trace()
			r.sample()
			r.equal("call", true, slices.Contains(r.engine.Calls(), call))
		})
	}
}

// What no library can do without: a fresh process loads each, because one that is loaded stays.
func TestLibraries(t *testing.T) {
	if noSimErr != nil {
		t.Skip(noSimErr)
	}
	lacking, err := dcgmsim.Build(t.TempDir(), "dcgmHealthCheck", "dcgmGetNvLinkLinkStatus")
	if err != nil {
		t.Fatal(err)
	}
	notOne := t.TempDir() + "/libdcgm.so.4"
	if err := os.WriteFile(notOne, []byte("not a library"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct{ library, want string }{
		"none installed":  {"libdcgm.so.4", "cannot be loaded"},
		"no such file":    {"/nowhere/libdcgm.so.4", "No such file"},
		"not a library":   {notOne, "cannot be loaded"},
		"an older one":    {lacking, "lacks dcgmGetNvLinkLinkStatus, dcgmHealthCheck"},
		"no DCGM at all":  {"libdl.so.2", "lacks DcgmFieldGetById"},
		"one that serves": {library, "reachable"},
	} {
		t.Run(name, func(t *testing.T) {
			child := exec.Command(os.Args[0], "-test.run=^TestLibraryOfAnotherProcess$", "-test.v")
			child.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0", libraryEnv+"="+tc.library)
			out, err := child.CombinedOutput()
			if err != nil || !strings.Contains(string(out), tc.want) {
				t.Errorf("%v, want %q in:\n%s", err, tc.want, out)
			}
		})
	}
}

func TestLibraryOfAnotherProcess(t *testing.T) {
	file := os.Getenv(libraryEnv)
	if file == "" {
		t.Skip("a part of TestLibraries")
	}
	r := aRig(t, func(o *Options) { o.Library = file })
	if s := r.after(time.Second); s.Reachable {
		t.Log("reachable")
	} else {
		t.Log(s.Message)
	}
}
