package simulate

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/lockstep-dev/lockstep/test/check"
)

// jsonOf runs a command with -o json, and decodes what it prints. Fields that a Report does not have are refused.
func jsonOf(t *testing.T, args ...string) *Report {
	t.Helper()
	out, err := simulate(append(args, "-o", "json")...)
	if err != nil {
		t.Fatal(err)
	}
	d := json.NewDecoder(bytes.NewReader([]byte(out)))
	d.DisallowUnknownFields()
	r := &Report{}
	if err := d.Decode(r); err != nil {
		t.Fatalf("%v in\n%s", err, out)
	}
	return r
}

func TestJSONHasTheFiguresOfTheText(t *testing.T) {
	args := []string{"-f", sample, "--compare", spares, "--for", "90d", "--plays", "2", "--sweep", "unreachableNode.gangDownAfterSeconds=5s..60s"}
	r := jsonOf(t, args...)
	check.Equal(t, "seconds", 90*86400.0, r.Setup.Seconds)
	check.Equal(t, "failures", "The Llama 3 Herd of Models, arXiv 2407.21783, table 5", r.Setup.FailureSource)
	check.Equal(t, "points", 7, len(r.Sweep.Points))
	check.Equal(t, "first and last point", []float64{5, 60}, []float64{r.Sweep.Points[0].Seconds, r.Sweep.Points[6].Seconds})
	var names []string
	for _, j := range r.Jobs {
		names = append(names, j.Name)
		all := j.Lost["total"]
		if parts := sum(maps.Values(j.Lost)) - all; parts < 0.999*all || parts > 1.001*all {
			t.Errorf("%s: the parts of what is lost are %.1f, and all of it is %.1f", j.Name, parts, all)
		}
	}
	check.Equal(t, "jobs", []string{"quickstart", "spares", wholeJob}, names)
	check.Equal(t, "the first against itself", true, r.Jobs[0].AgainstFirst == nil)
	check.Equal(t, "the last against itself", true, r.Jobs[2].AgainstWholeJob == nil)

	text, err := simulate(args...)
	check.Equal(t, "error", nil, err)
	for _, want := range []string{"\n  ETTR                  " + r.Jobs[0].ETTR.String(), r.Jobs[0].Causes[0].Name} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

func TestTimesAreGivenInDays(t *testing.T) {
	r := jsonOf(t, "-f", sample, "--plays", "1", "--for", "2d12h", "--checkpoint-interval", "1d", "--restore", "0.5d", "--sweep", "excludeNodeSeconds=12h..1d")
	check.Equal(t, "seconds", []float64{60 * 3600, 86400, 43200}, []float64{r.Setup.Seconds, r.Setup.CheckpointIntervalSeconds, r.Setup.RestoreSeconds})
	check.Equal(t, "the last point", 86400.0, r.Sweep.Points[len(r.Sweep.Points)-1].Seconds)
}

// A file may have other objects, too, and the job a name that is still to be generated.
func TestTheJobOfAFileIsFound(t *testing.T) {
	raw, err := os.ReadFile(sample)
	if err != nil {
		t.Fatal(err)
	}
	generated := strings.Replace(string(raw), "name: llama", "generateName: llama-", 1)
	file := fileOf(t, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\n---\n"+generated)
	check.Equal(t, "jobs", 2, len(jsonOf(t, "-f", file, "--plays", "1", "--for", "1d").Jobs))
	job, err := parseJob([]byte(generated))
	check.Equal(t, "error", nil, err)
	check.Equal(t, "name", "llama-00000", job.Name)
}

// What the API server fills in is there: one replica, where none is given.
func TestJobsHaveTheirDefaults(t *testing.T) {
	job, err := parseJob([]byte(job + "spec: {tasks: [{name: worker, template: {spec: {containers: [{name: c, image: i}]}}}]}\n"))
	check.Equal(t, "error", nil, err)
	check.Equal(t, "replicas", int32(1), job.Spec.Tasks[0].Replicas)
}

// A margin cannot be told of one play, and JSON has no infinity.
func TestJSONOfOnePlayHasNoMargin(t *testing.T) {
	out, err := simulate("-f", sample, "--for", "1d", "--plays", "1", "-o", "json")
	check.Equal(t, "error", nil, err)
	check.Equal(t, "margins", false, strings.Contains(out, `"margin"`))
}

func TestJSONOfAReplay(t *testing.T) {
	raw, err := os.ReadFile(sample)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "llama.yaml")
	if err := os.WriteFile(file, []byte(string(raw)+recorded), 0o600); err != nil {
		t.Fatal(err)
	}
	got := jsonOf(t, "-f", sample, "--replay", file)
	check.Equal(t, "incident", Incident{
		ID: 3, Trigger: "PodNotReady",
		Together: Together{Recorded: new(22.0), Played: []Played{{asItWas, 22}, {"quickstart", 22}, {wholeJob, 117.9}}},
	}, got.Replay.Incidents[0])
	check.Equal(t, "an open one", true, got.Replay.Incidents[2].Recorded == nil)
}

func TestOutputIsJSONOrText(t *testing.T) {
	checkMistakes(t, map[string]mistake{
		"another format": {[]string{"-f", sample, "-o", "yaml"}, `--output is "yaml", and has to be json, or left out for text`},
		"suggestions":    {[]string{"-f", sample, "-o", "json", "--suggest"}, "[output suggest] are set none of the others can be"},
	})
}

// The page names each field of the JSON.
func TestThePageHasTheFieldsOfTheJSON(t *testing.T) {
	raw, err := os.ReadFile("../../../lab/README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(raw), "### For other programs\n")
	section, _, _ = strings.Cut(section, "\n## ")
	told := map[string]bool{}
	for _, code := range regexp.MustCompile("`([A-Za-z.\\[\\]]+)`").FindAllStringSubmatch(section, -1) {
		for name := range strings.SplitSeq(strings.ReplaceAll(code[1], "[]", ""), ".") {
			told[name] = true
		}
	}
	fields := map[string]bool{}
	collectFields(reflect.TypeFor[Report](), fields)
	fields["margin"] = true
	for _, f := range slices.Concat(restarts, losses, places) {
		fields[f.field] = true
	}
	check.Equal(t, "fields", slices.Sorted(maps.Keys(fields)), slices.Sorted(maps.Keys(told)))
}

// collectFields collects the names of the fields of a type, and of those within.
func collectFields(t reflect.Type, into map[string]bool) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return
	}
	for f := range t.Fields() {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" {
			into[name] = true
			collectFields(f.Type, into)
		}
	}
}
