// Fuzzing, continued: gangs whose programs have supervisors.
//
//	go test ./policies -run X -fuzz FuzzSupervised -fuzztime 1m

package policies

import (
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/config"
	"github.com/lockstep-dev/lockstep/config/admission"
	"github.com/lockstep-dev/lockstep/policies/gang"
)

// supervise gives a drawn job supervisors, its status an epoch, and its pods reports, in half of the worlds.
func (d *dice) supervise(o *gang.Observation) {
	if !d.yes() {
		return
	}
	o.Job.Spec.Supervisor = d.supervisor()
	s := &o.Job.Status
	if s.Attempt > 0 {
		s.Epoch, s.RestartsWithoutProgress = int64(1+d.roll(3)), int32(d.roll(4))
	}
	if s.Epoch > 1 {
		s.EpochTime = new(d.micro())
	}
	for i := range s.Incidents {
		s.Incidents[i].Epoch, s.Incidents[i].RestartsWithoutProgress = int64(d.roll(int(s.Epoch)+2)), int32(d.roll(4))
		if d.roll(4) == 3 {
			s.Incidents[i].Trigger = v1alpha1.ProcessFailed
		}
	}
	for i := range o.Pods {
		if p := &o.Pods[i]; p.Node != "" && d.roll(4) > 0 {
			p.Process, p.StartedTime = d.process(s.Epoch), d.when()
		}
	}
	if d.yes() {
		o.ListensSince = d.when()
	}
}

func (d *dice) supervisor() *v1alpha1.Supervisor {
	s := &v1alpha1.Supervisor{Survivors: one(d, v1alpha1.SurvivorsRestart, v1alpha1.SurvivorsKeep, "")}
	if d.yes() {
		s.StopSeconds, s.ManagerTimeoutSeconds = new(int32(d.roll(120))), new(int32(d.roll(120)))
	}
	if d.yes() {
		s.Progress = &v1alpha1.Progress{CheckpointFile: "/checkpoints/latest", MaxRestarts: one(d, nil, new(int32(1)), new(int32(3)))}
	}
	return s
}

// process draws the report of a supervisor, in an epoch about that of the gang, with times by another clock.
func (d *dice) process(epoch int64) *gang.Process {
	p := &gang.Process{
		State: one(d, gang.ProcessRunning, gang.ProcessRunning, gang.ProcessStopping, gang.ProcessWaiting, gang.ProcessFailed, gang.ProcessSucceeded, gang.ProcessTerminating),
		Epoch: max(0, epoch+one[int64](d, 0, 0, 0, -1, -2, 1)), Progressed: d.yes(),
	}
	if d.yes() {
		p.LastExit = &gang.ContainerFailure{Name: "train", ExitCode: d.odd(4), Reason: "Error", Time: d.when(), StartedTime: d.when()}
		p.LastExitEpoch = max(0, p.Epoch-int64(d.roll(3)))
	}
	if d.yes() {
		p.Stopped, p.AtBarrier, p.Started = d.when(), d.when(), d.when()
	}
	return p
}

// checkEpoch checks the epoch after a decision, and the order to the supervisors.
func checkEpoch(t *testing.T, o *gang.Observation, d *Decision) {
	t.Helper()
	was, is := &o.Job.Status, &d.Status
	if is.Epoch < was.Epoch || is.Epoch > was.Epoch+1 {
		t.Errorf("epoch %d after epoch %d", is.Epoch, was.Epoch)
	}
	raised, same := is.Epoch > was.Epoch && was.Epoch > 0, is.Epoch == was.Epoch
	switch {
	case raised && (is.EpochTime == nil || !is.EpochTime.Time.Equal(o.Now)):
		t.Errorf("epoch %d begins at %v, not now", is.Epoch, is.EpochTime)
	case same && !is.EpochTime.Equal(was.EpochTime):
		t.Errorf("epoch %d began at %v, and now at %v", is.Epoch, was.EpochTime, is.EpochTime)
	case same && is.RestartsWithoutProgress != was.RestartsWithoutProgress:
		t.Errorf("%d restarts without progress after %d in one epoch", is.RestartsWithoutProgress, was.RestartsWithoutProgress)
	}
	checkOrder(t, o, is, PlanFor(o, is).Order)
}

func checkOrder(t *testing.T, o *gang.Observation, s *v1alpha1.TrainingJobStatus, order *Order) {
	t.Helper()
	if order == nil {
		return
	}
	if order.Epoch != s.Epoch || order.Keep != (o.Job.Spec.Supervisor != nil && o.Job.Spec.Supervisor.Survivors == v1alpha1.SurvivorsKeep) {
		t.Errorf("order %+v in epoch %d", order, s.Epoch)
	}
	if !order.Start || order.Keep {
		return
	}
	for i := range o.Pods {
		p := &o.Pods[i]
		if !p.Spare && p.Process != nil && p.Process.Epoch < s.Epoch && neededBy(o, s, p) {
			t.Errorf("programs start in epoch %d, and %s is in epoch %d", s.Epoch, p.Name, p.Process.Epoch)
		}
	}
}

// neededBy reports whether a pod is the only one of a rank that the gang needs now.
func neededBy(o *gang.Observation, s *v1alpha1.TrainingJobStatus, p *gang.Pod) bool {
	same := 0
	for i := range o.Pods {
		if o.Pods[i].Rank() == p.Rank() {
			same++
		}
	}
	t := gang.TaskStatus(s, p.Task)
	return same == 1 && t != nil && p.Index >= 0 && p.Index < t.Replicas && p.Attempt == s.Attempt && !gang.IsCompleted(s, p.Rank()) && !p.Succeeded()
}

var trainingJobs = sync.OnceValues(func() (*admission.Schema, error) {
	crd, err := config.CRD("TrainingJob")
	if err != nil {
		return nil, err
	}
	return admission.New(crd)
})

// checkAccepted checks that the API server takes a job with its status.
func checkAccepted(t *testing.T, job *v1alpha1.TrainingJob) {
	t.Helper()
	schema, err := trainingJobs()
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(job.Status)
	if err != nil {
		t.Fatal(err)
	}
	var status map[string]any
	if err := utiljson.Unmarshal(raw, &status); err != nil {
		t.Fatal(err)
	}
	obj := map[string]any{
		"apiVersion": v1alpha1.GroupVersion.String(), "kind": "TrainingJob", "metadata": map[string]any{"name": "llm", "namespace": "research"}, "status": status,
		"spec": map[string]any{"queue": "default", "tasks": []any{map[string]any{
			"name": "worker", "template": map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"name": "train", "image": "train"}}}},
		}}},
	}
	unknown := schema.Prepare(obj)
	if errs := schema.Create(obj); len(unknown) > 0 || len(errs) > 0 {
		t.Errorf("the API server refuses the job: unknown %v, %v", unknown, errs)
	}
}

// A supervised gang lives through whatever its supervisors report, its pods do and its nodes suffer.
func FuzzSupervised(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		d := &dice{data: data}
		s := d.supervisedScene()
		for range 12 {
			for range 1 + d.roll(4) {
				d.befall(s)
			}
			s.after(one(d, 0, time.Millisecond, time.Second, time.Minute, 10*time.Minute))
			o := copied(&s.Observation)
			dec := Decide(&s.Observation)
			unchanged(t, "a decision", o, &s.Observation)
			checkEpoch(t, &s.Observation, &dec)
			s.Job.Status = written(dec.Status)
			checkAccepted(t, s.Job)
			rested := s.Observation
			comesToRest(t, &rested, Decision{Status: s.Job.Status})
			if raised := rested.Job.Status.Epoch - s.Job.Status.Epoch; raised < 0 || raised > restsAfter {
				t.Errorf("epoch %d becomes %d while nothing happens", s.Job.Status.Epoch, rested.Job.Status.Epoch)
			}
		}
	})
}

// restsAfter is how many more times the epoch may be raised until decisions on one world come to rest: a ladder that has ended begins again,
// and pods that ended with the programs are replaced after them.
const restsAfter = 2

func (d *dice) supervisedScene() *scene {
	job := aJob().tasks(task("worker", int32(2+d.roll(4))))
	job.Spec.Supervisor = d.supervisor()
	if d.yes() {
		job.Spec.Tasks[0].Spares = new(int32(1))
	}
	if d.yes() {
		all := []v1alpha1.Action{v1alpha1.RestartProcesses, v1alpha1.RestartPod, v1alpha1.RestartTask, v1alpha1.RestartJob, v1alpha1.RelocateJob, v1alpha1.MigratePod}
		first, second := one(d, all...), one(d, all...)
		job.Spec.RestartPolicy = policy(budget(int32(d.roll(6)), 3600), withRules(rule("r", on(v1alpha1.AnyEvent), step(first, one[int32](d, 0, 90)), step(second, 420))))
	}
	s := aScene(job).started().placed()
	for i := range s.Pods {
		s.reports(i, gang.ProcessRunning)
	}
	s.decide()
	return s
}

// befall lets something happen to a scene.
func (d *dice) befall(s *scene) {
	if len(s.Pods) == 0 {
		return
	}
	i := d.roll(len(s.Pods))
	p := &s.Pods[i]
	switch d.roll(9) {
	case 0, 1:
		if p.Node != "" {
			p.Process = d.process(s.status().Epoch)
		}
	case 2:
		if p.Node != "" {
			s.fails(i, 1)
		}
	case 3:
		for i := range s.Pods {
			if s.Pods[i].Node != "" {
				s.reports(i, gang.ProcessRunning)
			}
		}
	case 4:
		s.crash(i, 1)
	case 5:
		p.Process = nil
	case 6:
		s.replace(i)
	case 7:
		s.Pods[i].Ready = d.yes()
		s.node(fmt.Sprintf("n%02d", d.roll(8)), func(n *gang.Node) { n.Ready = d.yes(); n.SilentSince = s.Now })
	case 8:
		if p.Gated {
			s.bind(i, fmt.Sprintf("n%02d", d.roll(12)))
			s.reports(i, one(d, gang.ProcessWaiting, gang.ProcessRunning))
		}
	}
}
