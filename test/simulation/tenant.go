package simulation

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies"
)

// tenant is a TrainingJob with all that belongs to it alone.
type tenant struct {
	*world
	name    string
	job     *v1alpha1.TrainingJob
	version int      // resourceVersion of the job
	earlier []stored // the last versions of the job before
	volcano []*volcanoJob
	pods    []*pod

	request  int  // GPUs that each pod requests
	confined bool // the gang has to be in one rack
	never    bool // the template's restartPolicy is Never; else OnFailure
	done     bool // the program comes to its end

	supervised bool             // the programs run under supervisors
	orders     []policies.Order // that its managers gave of late
	protected  []string         // tasks whose pods may not be evicted
	shared     []int64          // steps of the checkpoints that all ranks see
	ghosts     []*pod           // whose objects are gone, and whose programs may run on

	collective bool   // the processes of the ranks need each other
	probed     bool   // a process is ready only while it is in the collective
	group      []*pod // the collective
	culprit    *culprit
	broken     map[string]*startFault // tasks none of whose pods starts anywhere
	failsAfter time.Duration          // how long the program runs until it fails, at each start; 0 where it does not

	passes  int      // of its managers, to the end
	manager *manager // the leader
	former  *manager // one that has yet to learn that it leads no more
	acting  *manager // the one whose turn it is
	ledger  ledger
}

// stored is one version of a TrainingJob.
type stored struct {
	version int
	job     *v1alpha1.TrainingJob
}

// keptVersions is how many versions of the job a cache may lag behind.
const keptVersions = 4

func (w *world) newTenant(name string) *tenant {
	t := &tenant{world: w, name: name, version: 1, request: gpus, manager: &manager{listens: w.now}, ledger: newLedger(), broken: map[string]*startFault{}}
	t.confined, t.never = w.rng.IntN(2) == 0, w.rng.IntN(2) == 0
	if w.is(sharedNodes) {
		t.request = gpus / 2
		if w.one(4) {
			t.request = gpus / 4
		}
	}
	if w.ranks > 0 {
		t.request = w.perPod
	}
	t.job = t.drawJob()
	t.drawSupervisor()
	t.job.ResourceVersion = strconv.Itoa(t.version)
	if w.is(collective) && t.job.Spec.MinAvailable == nil && !t.keepsSurvivors() { // programs that heal themselves do not abort together
		t.collective, t.probed = true, w.one(3)
	}
	return t
}

// store makes a new version of the job.
func (t *tenant) store(job *v1alpha1.TrainingJob) {
	t.earlier = append(t.earlier, stored{t.version, t.job})
	if n := len(t.earlier); n > keptVersions {
		t.earlier = slices.Clone(t.earlier[n-keptVersions:])
	}
	t.version++
	job.ResourceVersion = strconv.Itoa(t.version)
	t.job = job
}

// edit is a user who changes the spec or the annotations.
func (t *tenant) edit(change func(*v1alpha1.TrainingJob)) {
	job := t.job.DeepCopy()
	change(job)
	job.Generation++
	t.store(job)
}

// String tells where the job stands.
func (t *tenant) String() string {
	s := &t.job.Status
	var out strings.Builder
	fmt.Fprintf(&out, "%s: %s, attempt %d, ready %s, policy %s", t.name, s.State, s.Attempt, s.Ready, asJSON(t.job.Spec.RestartPolicy))
	for _, inc := range s.Incidents {
		if inc.Outcome == "" {
			out.WriteString("\n  " + tell(&inc))
		}
	}
	for _, p := range t.pods {
		fmt.Fprintf(&out, "\n  %s", p)
	}
	for _, v := range t.volcano {
		fmt.Fprintf(&out, "\n  %+v", *v)
	}
	for _, name := range t.names {
		if n := t.nodes[name]; !t.takes(n) {
			fmt.Fprintf(&out, "\n  node %s: %+v gone=%v free %d holds %v", name, n.Node, n.gone, t.free(n), n.holds)
		}
	}
	fmt.Fprintf(&out, "\n  excluded %v, left %v, placement %s", s.ExcludedNodes, s.LeftHyperNodes, asJSON(s.Placement))
	return out.String()
}

// tell describes an incident.
func tell(inc *v1alpha1.Incident) string {
	var pods []string
	for _, p := range inc.Pods {
		pods = append(pods, p.Name+" on "+p.Node)
	}
	return fmt.Sprintf("incident %d: %s of %s, %s of %v (%d), rule %q of %q, charged %v, steps %v, since %s",
		inc.ID, inc.Trigger, inc.Cause.Pod, inc.Class, pods, inc.PodCount, inc.Rule, inc.PolicyTask, inc.Charged, inc.Steps, inc.StartTime.Format("15:04:05.0"))
}

// sayStatus tells what is not as it was.
func (t *tenant) sayStatus(old, s *v1alpha1.TrainingJobStatus) {
	if !t.verbose {
		return
	}
	for _, inc := range s.Incidents {
		was := incidentOf(old, inc.ID)
		if a, b := tell(&was)+string(was.Outcome), tell(&inc)+string(inc.Outcome); a != b {
			t.say("  %s %s", tell(&inc), inc.Outcome)
		}
	}
	t.say("  tasks %s, placement %s, excluded %v, left %v, holds %s", asJSON(s.Tasks), asJSON(s.Placement), s.ExcludedNodes, s.LeftHyperNodes, asJSON(s.Holds))
}
