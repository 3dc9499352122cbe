// Storage that is gone for a while: every program fails some seconds after each start, until the storage is back.

package e2e

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/test/check"
	"github.com/lockstep-dev/lockstep/test/cluster"
	"github.com/lockstep-dev/lockstep/test/evidence"
)

// times are how long storage is gone, as a flag.
type times []time.Duration

func (d *times) String() string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(*d), " ", ","), "[]")
}

func (d *times) Set(text string) error {
	*d = nil
	for field := range strings.SplitSeq(text, ",") {
		one, err := time.ParseDuration(field)
		if err != nil {
			return err
		}
		*d = append(*d, one)
	}
	return nil
}

var (
	storageGone = times{40 * time.Second}
	storageFile = flag.String("storage.json", "", "the file into which TestStorageIsGone writes what it has seen")
)

func init() {
	flag.Var(&storageGone, "storage.gone", "how long the storage of the gangs of TestStorageIsGone is gone, separated by commas")
}

const (
	storageRanks = 8
	// programLasts is how long a program takes to find that its storage is gone.
	programLasts = 3 * time.Second
	// storageWait bounds the wait for a gang that trains again: a back-off of the manager and one of a kubelet, of five minutes each, and as much again.
	storageWait = 20 * time.Minute
)

// The budget and the back-off of a job that has no restartPolicy, as the API's comments have them.
const (
	defaultBudget     = 20
	defaultMinBackoff = 10 * time.Second
	defaultMaxBackoff = 300 * time.Second
)

// outage is a gang whose storage is gone for a while, and what came of it.
type outage struct {
	// Template is the restartPolicy of the pods.
	Template    corev1.RestartPolicy `json:"template"`
	Ranks       int                  `json:"ranks"`
	GoneSeconds int                  `json:"goneSeconds"`
	// Failures is the number of programs that have failed.
	Failures int `json:"failures"`
	// Restarts counts the steps that restarted something, and Charged and Uncharged the incidents.
	Restarts  int32 `json:"restarts"`
	Charged   int32 `json:"charged"`
	Uncharged int32 `json:"uncharged"`
	// Budget is how many restarts may be charged within a day.
	Budget int32 `json:"budget"`
	// LongestBackoffSeconds is the longest time between two charges. With OnFailure it is longer than the back-off: kubelets start the
	// programs again between the two, which is not charged.
	LongestBackoffSeconds int `json:"longestBackoffSeconds"`
	// TrainsAfterSeconds is how long after the return of the storage every rank was ready.
	TrainsAfterSeconds int `json:"trainsAfterSeconds"`
	// Attempts is the number of Volcano Jobs.
	Attempts int32 `json:"attempts"`
	// Running is the number of ranks whose pod is ready at the end, and State that of the job.
	Running int            `json:"running"`
	State   v1alpha1.State `json:"state"`
}

// A gang under the default restart policy trains again after its storage was gone, and its budget is not used up.
func TestStorageIsGone(t *testing.T) {
	var seen []*outage
	if *storageFile != "" {
		of, err := evidence.Of(t.Context(), "make test-storage", *storageFile)
		if err != nil {
			t.Fatal("name what is tested:", err)
		}
		t.Cleanup(func() { writeOutages(t, of, seen) })
	}
	for _, gone := range storageGone {
		for _, template := range []corev1.RestartPolicy{corev1.RestartPolicyNever, corev1.RestartPolicyOnFailure} {
			o := &outage{Template: template, Ranks: storageRanks, GoneSeconds: int(gone.Seconds()), Budget: defaultBudget}
			seen = append(seen, o)
			t.Run(fmt.Sprintf("%s/%s", gone, template), func(t *testing.T) {
				name := fmt.Sprintf("storage-%d-%s", o.GoneSeconds, strings.ToLower(string(template)))
				s := newScenario(t, name, 1, storageRanks+1)
				s.run(s.trainingJob(storageRanks, func(j *v1alpha1.TrainingJob) {
					j.Spec.Tasks[0].Template.Spec.RestartPolicy = template
				}))
				s.storageIsGone(o, gone)
				s.trainsAgain(o)
				s.backsOff(o)
			})
		}
	}
}

// storageIsGone has all programs fail for a time, those that run and those that start.
func (s *scenario) storageIsGone(o *outage, gone time.Duration) {
	s.t.Helper()
	how := cluster.Termination{ExitCode: 1, Message: "OSError: [Errno 5] Input/output error: '/checkpoints'"}
	for began := time.Now(); time.Since(began) < gone; time.Sleep(time.Second) {
		n, err := testCluster.CrashPrograms(s.ctx, programLasts, how, s.podList()...)
		s.must(err, "have the programs fail")
		o.Failures += n
		s.restartCrashed()
		s.await("the job is read", func() bool { return true })
		s.hasNotFailed()
	}
}

// trainsAgain waits until every rank is ready.
func (s *scenario) trainsAgain(o *outage) {
	s.t.Helper()
	back := time.Now()
	s.longest = storageWait
	s.await("the job trains again", func() bool {
		s.hasNotFailed()
		s.restartCrashed()
		o.Running = s.ready()
		return o.Running == o.Ranks && s.job.Status.State == v1alpha1.StateRunning
	})
	o.TrainsAfterSeconds = int(time.Since(back).Seconds())
	o.State, o.Attempts = s.job.Status.State, s.job.Status.Attempt
	restarts := s.job.Status.Restarts
	o.Restarts, o.Charged, o.Uncharged = restarts.Total, restarts.Charged, restarts.Uncharged
}

// backsOff checks that each charged restart came as long after the one before as the default back-off says, or later. That bounds their
// number. The times are the manager's, in whole seconds as it counts them.
func (s *scenario) backsOff(o *outage) {
	s.t.Helper()
	charges, delay := s.job.Status.Restarts.ChargedTimes, defaultMinBackoff
	check.Equal(s.t, "charges with a time", int(o.Charged), len(charges))
	for i := range charges[:max(len(charges)-1, 0)] {
		between := charges[i+1].Sub(charges[i].Time)
		if between < delay {
			s.t.Errorf("charge %d came %s after the one before, and not after %s", i+2, between, delay)
		}
		o.LongestBackoffSeconds = max(o.LongestBackoffSeconds, int(between.Seconds()))
		delay = min(2*delay, defaultMaxBackoff)
	}
	if o.Charged >= o.Budget {
		s.t.Errorf("%d restarts were charged, want fewer than %d", o.Charged, o.Budget)
	}
	if o.Template == corev1.RestartPolicyNever && o.Charged == 0 {
		s.t.Error("no restart was charged, and no pod starts its program again by itself")
	}
	raw, err := json.Marshal(o)
	s.must(err, "print what was seen")
	s.t.Logf("%s", raw)
}

// hasNotFailed ends the test if the job has failed.
func (s *scenario) hasNotFailed() {
	s.t.Helper()
	if gang.Finished(&s.job.Status) {
		s.t.Fatalf("the job has ended: %+v", meta.FindStatusCondition(s.job.Status.Conditions, v1alpha1.ConditionFailed))
	}
}

func (s *scenario) restartCrashed() {
	s.t.Helper()
	_, err := testCluster.RestartCrashed(s.ctx, s.podList()...)
	s.must(err, "have kubelets start the programs again")
}

func (s *scenario) podList() []corev1.Pod {
	s.t.Helper()
	return slices.Collect(maps.Values(s.pods()))
}

// ready is the number of pods that are ready.
func (s *scenario) ready() int {
	s.t.Helper()
	n := 0
	for _, pod := range s.podList() {
		if isReady(&pod) {
			n++
		}
	}
	return n
}

// writeOutages writes what was seen into the file that the flag names.
func writeOutages(t *testing.T, of evidence.Tested, seen []*outage) {
	if t.Failed() {
		return
	}
	err := evidence.Write(*storageFile, struct {
		evidence.Tested
		Outages []*outage `json:"outages"`
	}{of, seen})
	if err != nil {
		t.Error("write what was seen:", err)
	}
}
