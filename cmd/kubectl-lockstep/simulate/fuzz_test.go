package simulate

import (
	"os"
	"testing"
)

// Whatever is in a file, it is read or refused.
func FuzzFiles(f *testing.F) {
	raw, err := os.ReadFile(sample)
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{
		string(raw) + recorded, aRack(everyNode, 8, 0, -1),
		"nodes: 1\ndays: 1\ncauses: [{name: x, failures: 1, effect: NodeLoss, repair: 1d}]\n", "--- {a: b}\n---\n[]\n", "kind: List\napiVersion: v1\nitems: [1, {}]\n", "{metadata: 1, kind: TrainingJob, apiVersion: lockstep.dev/v1alpha1}",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if job, err := parseJob(raw); (job == nil) != (err != nil) {
			t.Errorf("job %v, error %v", job, err)
		}
		if _, err := (&options{}).parseModel(raw); err != nil && err.Error() == "" {
			t.Error("an error that says nothing")
		}
	})
}
