// The manager beside a newer CRD, as after a rollback of the manager alone.

package e2e

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

func TestAnActionOfANewerVersionDoesNothing(t *testing.T) {
	s := newScenario(t, "neweraction", 1, 4)
	s.keepManager()
	const action = "RestartRacks"
	s.acceptAction(action)
	s.job = s.trainingJob(3, rules(anything(step(action, 0))))
	s.awaitAny("the API server accepts the action", func(ctxT) (bool, error) {
		err := testCluster.Client().Create(s.ctx, s.job)
		return err == nil, err
	})
	s.await("the job runs", func() bool { return s.job.Status.State == v1alpha1.StateRunning })
	before := s.pods()

	s.must(testCluster.FailPod(s.ctx, keyOf(s.pod(1)), 1), "fail a worker")
	s.await("the condition says that the action is unknown", func() bool {
		c := meta.FindStatusCondition(s.job.Status.Conditions, v1alpha1.ConditionRecovering)
		return c != nil && c.Reason == v1alpha1.ReasonUnknownAction && strings.Contains(c.Message, action)
	})
	s.warned(v1alpha1.ReasonUnknownAction)
	s.settled()

	s.untouched(before)
	inc := s.job.Status.Incidents[0]
	if r := s.job.Status.Restarts; inc.Outcome != "" || len(inc.Steps) != 0 || r.Total != 0 || r.Charged != 0 {
		t.Errorf("incident %+v, restarts %+v: want it open, and nothing done", inc, r)
	}
}

// acceptAction has the API server accept one more action, as the CRD of a later version does.
func (s *scenario) acceptAction(action string) {
	s.t.Helper()
	s.awaitAny("the CRD accepts "+action, func(ctxT) (bool, error) {
		crd := &unstructured.Unstructured{}
		crd.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
		if err := testCluster.Client().Get(s.ctx, client.ObjectKey{Name: "trainingjobs.lockstep.dev"}, crd); err != nil {
			return false, err
		}
		widen(crd.Object, string(v1alpha1.ShrinkTask), action)
		return true, testCluster.Client().Update(s.ctx, crd)
	})
}

// widen adds a value to every enumeration in a tree that has another one.
func widen(tree any, beside, value string) {
	switch node := tree.(type) {
	case map[string]any:
		if enum, ok := node["enum"].([]any); ok && slices.Contains(enum, any(beside)) && !slices.Contains(enum, any(value)) {
			node["enum"] = append(enum, value)
		}
		for _, child := range node {
			widen(child, beside, value)
		}
	case []any:
		for _, child := range node {
			widen(child, beside, value)
		}
	}
}

// warned waits until a warning of a reason tells of the job.
func (s *scenario) warned(reason string) {
	s.t.Helper()
	s.eventSays(corev1.EventTypeWarning, reason)
}

// eventSays waits until an event of a reason tells of the job: it comes later than what it tells of is in the status.
func (s *scenario) eventSays(kind, reason string) {
	s.t.Helper()
	s.awaitAny("an event of type "+kind+" says "+reason, func(ctxT) (bool, error) {
		events := &corev1.EventList{}
		err := testCluster.Client().List(s.ctx, events, client.InNamespace(namespace))
		return slices.ContainsFunc(events.Items, func(e corev1.Event) bool {
			return e.InvolvedObject.UID == s.job.UID && e.Reason == reason && e.Type == kind
		}), err
	})
}
