package process

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"
)

func TestReadProcess(t *testing.T) {
	p, ok := readProcess(os.Getpid())
	if !ok || p.pid != os.Getpid() || p.parent != os.Getppid() || !p.alive {
		t.Errorf("this process is %+v (%v)", p, ok)
	}
	if started, err := strconv.Atoi(p.started); err != nil || started <= 0 {
		t.Errorf("it was started at %q", p.started)
	}
}

// A name may look like the fields after it.
func TestParseStat(t *testing.T) {
	const rest = " 7 7 0 -1 4194304 1 0 0 0 1 2 3 4 20 0 "
	for name, test := range map[string]struct {
		stat  string
		want  process
		found bool
	}{
		"running":                      {"9 (python) S 7" + rest + "4 0 1234 1 1", process{identity: identity{9, "1234"}, name: "python", parent: 7, alive: true}, true},
		"a name with brackets":         {"9 (a) Z 1 (b) R 7" + rest + "1 0 1234 1 1", process{identity: identity{9, "1234"}, name: "a) Z 1 (b", parent: 7, alive: true}, true},
		"a zombie":                     {"9 (python) Z 7" + rest + "1 0 1234 1 1", process{identity: identity{9, "1234"}, name: "python", parent: 7, alive: false}, true},
		"a zombie whose threads live":  {"9 (python) Z 7" + rest + "3 0 1234 1 1", process{identity: identity{9, "1234"}, name: "python", parent: 7, alive: true}, true},
		"one that ends while it reads": {"", process{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			got, found := parseStat(9, []byte(test.stat))
			if found && got.used != 100*time.Millisecond {
				t.Errorf("it used a processor for %s", got.used)
			}
			got.state, got.used = "", 0
			if got != test.want || found != test.found {
				t.Errorf("got %+v %v, want %+v %v", got, found, test.want, test.found)
			}
		})
	}
}

func TestCodeOf(t *testing.T) {
	for err, want := range map[error]int{
		exec.ErrNotFound:      127,
		fs.ErrNotExist:        127,
		fs.ErrPermission:      126,
		errors.New("ENOEXEC"): 126,
	} {
		if got := CodeOf(err); got != want {
			t.Errorf("%v has the code %d, want %d", err, got, want)
		}
	}
}

func TestMostUsed(t *testing.T) {
	for output, want := range map[string]int{
		"":                              0,
		"0\n":                           0,
		"4\n81234\n9\n":                 81234,
		"[N/A]\n":                       0,
		"[Insufficient Permissions]\n7": 7,
	} {
		if got := mostUsed(output); got != want {
			t.Errorf("%q: got %d, want %d", output, got, want)
		}
	}
}
