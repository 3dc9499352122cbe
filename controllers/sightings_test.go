package controllers

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/test/check"
)

// What others stamp is seen later than it was stamped, or earlier where their clocks are ahead.
func TestSightings(t *testing.T) {
	var m memory
	look := func(at time.Time, node gang.Node, pods ...gang.Pod) *gang.Observation {
		o := &gang.Observation{Now: at, Job: aJob(), Pods: pods, Nodes: map[string]gang.Node{"n1": node}}
		m.sight(o)
		return o
	}
	unready := gang.Pod{UID: "1", Phase: corev1.PodRunning}
	deleting := gang.Pod{UID: "2", Phase: corev1.PodRunning, Ready: true, Deleting: true}
	later := t0.Add(time.Minute)

	o := look(t0, gang.Node{SilentSince: t0.Add(-time.Hour)}, unready, deleting)
	check.Equal(t, "unready", []time.Time{t0, {}}, []time.Time{o.Pods[0].UnreadySeen, o.Pods[0].DeletingSeen})
	check.Equal(t, "deleting", []time.Time{{}, t0}, []time.Time{o.Pods[1].UnreadySeen, o.Pods[1].DeletingSeen})
	check.Equal(t, "silent", t0, o.Nodes["n1"].SilentSeen)

	o = look(later, gang.Node{SilentSince: t0.Add(-time.Hour)}, unready)
	check.Equal(t, "still unready", t0, o.Pods[0].UnreadySeen)
	check.Equal(t, "still silent", t0, o.Nodes["n1"].SilentSeen)

	o = look(later, gang.Node{SilentSince: t0}, unready, deleting)
	check.Equal(t, "deleting again", later, o.Pods[1].DeletingSeen)
	check.Equal(t, "silent again", later, o.Nodes["n1"].SilentSeen)

	look(later, gang.Node{})
	check.Equal(t, "remembered", 0, len(m.sightings))
}

// The reconciler counts from what it has seen itself.
func TestANodeIsSeenToBeSilent(t *testing.T) {
	e := running(t)
	node := &corev1.Node{}
	node.Name = "n1"
	e.Must(e.API.Get(t.Context(), client.ObjectKeyFromObject(node), node))
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, LastTransitionTime: metav1.NewTime(t0)}}
	e.Must(e.API.Status().Update(t.Context(), node))
	for _, at := range []time.Time{t0.Add(2 * time.Minute), t0.Add(3 * time.Minute)} {
		e.Clock.SetTime(at)
		o, err := e.r.observe(t.Context(), e.job())
		e.Must(err)
		check.Equal(t, "silent", t0.Add(2*time.Minute), o.Nodes["n1"].SilentSeen)
	}
}
