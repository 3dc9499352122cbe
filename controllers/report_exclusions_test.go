// Nodes that join again, as the manager sees them: their Node objects, the reports of their agents, and their machines.

package controllers

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/test/check"
)

// joinAgain deletes a node and creates it again, under a name.
func (e *env) joinAgain(old, name string) *corev1.Node {
	e.T.Helper()
	node := &corev1.Node{}
	e.Must(e.API.Get(e.T.Context(), client.ObjectKey{Name: old}, node))
	e.Must(e.API.Delete(e.T.Context(), node))
	e.r.topology.Invalidate()
	e.settle()
	node.Name, node.UID, node.ResourceVersion = name, types.UID(name+"-again"), ""
	node.CreationTimestamp = metav1.NewTime(e.Clock.Now())
	e.Must(e.API.Create(e.T.Context(), node))
	e.r.topology.Invalidate()
	e.settle()
	return node
}

func (e *env) excluded() []string {
	e.T.Helper()
	var names []string
	for _, x := range e.job().Status.ExcludedNodes {
		names = append(names, x.Name)
	}
	return names
}

// A node that was deleted and joins again is used again once its agent has reported since.
func TestANodeThatJoinsAgainIsUsedOnceItsAgentReports(t *testing.T) {
	e := running(t)
	health := &v1alpha1.NodeHealth{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
	health.Status.Sources = []v1alpha1.HealthSource{{Name: v1alpha1.SourceDCGM, State: v1alpha1.HealthHealthy, HeartbeatTime: new(metav1.NewTime(t0))}}
	e.Must(e.API.Create(t.Context(), health))
	e.Clock.SetTime(t0.Add(time.Minute))
	e.joinAgain("n1", "n1")
	check.Equal(t, "excluded, before its agent reports", []string{"n1"}, e.excluded())
	for _, state := range []v1alpha1.HealthState{v1alpha1.HealthUnknown, v1alpha1.HealthHealthy} {
		e.Clock.SetTime(e.Clock.Now().Add(20 * time.Second))
		e.Must(e.API.Get(t.Context(), client.ObjectKey{Name: "n1"}, health))
		health.Status.Sources[0].State, health.Status.Sources[0].HeartbeatTime = state, new(metav1.NewTime(e.Clock.Now()))
		e.Must(e.API.Status().Update(t.Context(), health))
		e.Told()
		e.settle()
		check.Equal(t, "excluded while the agent says "+string(state), state == v1alpha1.HealthUnknown, len(e.excluded()) == 1)
	}
	has(t, e.Told(), "Normal ExclusionEnded node n1 was excluded until 2026-01-02T04:05:05Z for its silence (NodeGone); it has joined again and is Ready")
}

// A machine that failed is the same one under another name.
func TestAFailedMachineIsExcludedUnderEveryName(t *testing.T) {
	e := running(t)
	node := &corev1.Node{}
	e.Must(e.API.Get(t.Context(), client.ObjectKey{Name: "n1"}, node))
	node.Spec.ProviderID = "cloud://machine-1"
	e.Must(e.API.Update(t.Context(), node))
	health := faultUnderAPod()
	health.Status.Verdict = &v1alpha1.HealthVerdict{State: v1alpha1.HealthStateFailed, AdmittedTime: new(metav1.NewTime(t0))}
	e.Must(e.API.Create(t.Context(), health))
	e.settle()
	check.Equal(t, "machine", "cloud://machine-1", e.job().Status.ExcludedNodes[0].Machine)
	e.joinAgain("n1", "n9")
	o := &gang.Observation{Job: e.job()}
	e.Must(e.r.observeNodes(t.Context(), o))
	check.Equal(t, "seen under its new name", "cloud://machine-1", o.Nodes["n9"].Machine)
}

// Where several nodes carry the ID of a machine that failed, only the one of its name is kept from.
func TestMachinesThatShareAnIDAreExcludedByName(t *testing.T) {
	const uuid = "03000200-0400-0500-0006-000700080009"
	for name, tc := range map[string]struct {
		carriers []string
		machines map[string]string // of the nodes that the job observes
	}{
		"one node":                          {[]string{"n1"}, map[string]string{"n0": "", "n1": uuid}},
		"two nodes of the job":              {[]string{"n0", "n1"}, map[string]string{"n0": "", "n1": ""}},
		"a node that the job knows not":     {[]string{"n1", "n9"}, map[string]string{"n0": "", "n1": ""}},
		"it is gone, and several are there": {[]string{"n8", "n9"}, map[string]string{"n0": "", "n1": ""}},
		"it has joined under another name":  {[]string{"n9"}, map[string]string{"n0": "", "n1": "", "n9": uuid}},
	} {
		t.Run(name, func(t *testing.T) {
			e := running(t)
			for _, name := range tc.carriers {
				node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
				e.Must(client.IgnoreAlreadyExists(e.API.Create(t.Context(), node)))
				e.Must(e.API.Get(t.Context(), client.ObjectKey{Name: name}, node))
				node.Status.NodeInfo.SystemUUID = uuid
				e.Must(e.API.Status().Update(t.Context(), node))
			}
			job := e.job()
			job.Status.ExcludedNodes = []v1alpha1.ExcludedNode{{Name: "n1", Machine: uuid, Cause: v1alpha1.HealthFailed}}
			o := &gang.Observation{Job: job, Pods: []gang.Pod{{Node: "n0"}, {Node: "n1"}}}
			e.Must(e.r.observeNodes(t.Context(), o))
			machines := map[string]string{}
			for name, n := range o.Nodes {
				machines[name] = n.Machine
			}
			check.Equal(t, "machines", tc.machines, machines)
		})
	}
}

// Why an exclusion has ended before its time.
func TestEarlyEndsOfExclusionsAreTold(t *testing.T) {
	e := running(t)
	job := e.job()
	job.Status.ExcludedNodes = []v1alpha1.ExcludedNode{{Name: "n1", Until: metav1.NewTime(t0.Add(time.Hour)), Cause: v1alpha1.NodeNotReady, NodeUID: "old"}}
	job.Status.Incidents = []v1alpha1.Incident{{ID: 1, Trigger: v1alpha1.PodPending}}
	forgiven := job.Status.DeepCopy()
	forgiven.ExcludedNodes, forgiven.Incidents[0].WaitRestartTime = nil, new(metav1.NewMicroTime(t0))
	stuck := job.Status.DeepCopy()
	stuck.ExcludedNodes = nil
	cordoned := job.DeepCopy()
	cordoned.Status.ExcludedNodes[0].Cause = v1alpha1.NodeCordoned
	for name, tc := range map[string]struct {
		job  *v1alpha1.TrainingJob
		uid  string
		now  *v1alpha1.TrainingJobStatus
		want string
	}{
		"joined again":     {job, "new", forgiven, "Normal ExclusionEnded node n1 was excluded until 2026-01-02T04:04:05Z for its silence (NodeNotReady); it has joined again and is Ready"},
		"before home goes": {job, "old", forgiven, "Warning ExclusionLifted node n1 was excluded until 2026-01-02T04:04:05Z for its silence (NodeNotReady); it is Ready, and is tried again before the job leaves its home"},
		"uncordoned":       {cordoned, "old", stuck, "Normal ExclusionEnded node n1 was excluded until 2026-01-02T04:04:05Z because it was cordoned; it takes pods again"},
		"no other place":   {job, "old", stuck, "Warning ExclusionLifted node n1 was excluded until 2026-01-02T04:04:05Z, but no other node takes the job"},
	} {
		t.Run(name, func(t *testing.T) {
			e.Told()
			e.r.reportExclusions(&gang.Observation{Job: tc.job, Now: t0, Nodes: map[string]gang.Node{"n1": {Name: "n1", UID: tc.uid, Ready: true}}}, tc.now)
			check.Equal(t, "events", []string{tc.want}, e.Told())
		})
	}
}
