// Volcano forgets a job, and is asked to look at it again.

package controllers

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	bus "volcano.sh/apis/pkg/apis/bus/v1alpha1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/test/check"
)

// callsAt are what the manager writes some seconds later, and after how long it looks again.
func (e *env) callsAt(seconds int) (calls []string, again time.Duration) {
	e.Calls = nil
	e.Clock.SetTime(t0.Add(time.Duration(seconds) * time.Second))
	result, err := e.reconcile()
	e.Must(err)
	return e.Calls, result.RequeueAfter
}

func TestAForgottenJobIsWoken(t *testing.T) {
	e := newEnv(t, aJob())
	e.settle()
	at := func(seconds int) []string {
		t.Helper()
		calls, again := e.callsAt(seconds)
		if again == 0 {
			t.Errorf("after %d s nobody looks again", seconds)
		}
		return calls
	}
	asked := []string{"create *v1alpha1.Command llm-1-sync"}
	check.Equal(t, "after 10 s", nil, at(10))
	check.Equal(t, "after 19 s", nil, at(19))
	check.Equal(t, "after 20 s", append([]string{"update the status of *v1alpha1.TrainingJob llm"}, asked...), at(20))
	has(t, e.Told(), "Warning PodsNotCreated Volcano has made 0 of the 2 pods")
	command := &bus.Command{}
	name := types.NamespacedName{Namespace: key.Namespace, Name: "llm-1-sync"}
	e.Must(e.API.Get(t.Context(), name, command))
	check.Equal(t, "action", string(bus.SyncJobAction), command.Action)
	check.Equal(t, "target", "llm-1", command.TargetObject.Name)
	check.Equal(t, "owner", "llm-1", command.OwnerReferences[0].Name)

	check.Equal(t, "after 49 s", nil, at(49))
	check.Equal(t, "while it is not heard", asked, at(50))
	e.Must(e.API.Delete(t.Context(), command))
	check.Equal(t, "after 79 s", nil, at(79))
	check.Equal(t, "once it has not helped", asked, at(80))
	check.Equal(t, "told again", nil, e.Told())

	e.restart(interceptor.Funcs{})
	check.Equal(t, "by another process", []string{"update the status of *v1alpha1.TrainingJob llm"}, at(100))
	check.Equal(t, "which has to see it too", append([]string{"update the status of *v1alpha1.TrainingJob llm"}, asked...), at(120))
	e.volcano(1)
	e.settle()
	check.Equal(t, "state", v1alpha1.StateStarting, e.job().Status.State)
	check.Equal(t, "message", "some pods of the gang have no node yet", e.job().Status.Message)
}

// Volcano takes what it is asked, and makes no pods all the same.
func TestAJobThatVolcanoForgetsForGood(t *testing.T) {
	e := newEnv(t, aJob())
	e.settle()
	at := func(seconds int) []string {
		calls, _ := e.callsAt(seconds)
		return calls
	}
	at(10)
	at(20)
	e.Must(e.API.Delete(t.Context(), &bus.Command{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: "llm-1-sync"}}))
	check.Equal(t, "once it has not helped", []string{"create *v1alpha1.Command llm-1-sync"}, at(50))
	check.Equal(t, "after 79 s", nil, at(79))
	other := []string{"update the status of *v1alpha1.TrainingJob llm", "delete *v1alpha1.Job llm-1", "create *v1alpha1.Job llm-2"}
	check.Equal(t, "once neither has helped", other, at(80))
	e.settle()
	check.Equal(t, "it has its time, too", nil, at(99))
}
