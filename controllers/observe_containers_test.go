package controllers

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/test/check"
)

func waiting(name, reason, message string) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: name, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}}
}

func TestStartProblem(t *testing.T) {
	tests := map[string]struct {
		init, containers []corev1.ContainerStatus
		phase            corev1.PodPhase
		want             gang.StartProblem
	}{
		"nothing yet":              {phase: corev1.PodPending},
		"the ordinary course":      {containers: []corev1.ContainerStatus{waiting("train", "ContainerCreating", "")}, phase: corev1.PodPending},
		"behind its init":          {containers: []corev1.ContainerStatus{waiting("train", "PodInitializing", "")}, phase: corev1.PodPending},
		"a crash":                  {containers: []corev1.ContainerStatus{waiting("train", "CrashLoopBackOff", "")}, phase: corev1.PodRunning},
		"an image":                 {containers: []corev1.ContainerStatus{waiting("train", "ImagePullBackOff", "no such image")}, phase: corev1.PodPending, want: gang.StartProblem{Container: "train", Reason: "ImagePullBackOff", Message: "no such image"}},
		"an init container":        {init: []corev1.ContainerStatus{waiting("copy", "CrashLoopBackOff", "back-off")}, containers: []corev1.ContainerStatus{waiting("train", "PodInitializing", "")}, phase: corev1.PodPending, want: gang.StartProblem{Container: "copy", Reason: "CrashLoopBackOff", Message: "back-off"}},
		"an init container, ended": {init: []corev1.ContainerStatus{{Name: "copy", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Reason: "Error"}}}}, phase: corev1.PodPending, want: gang.StartProblem{Container: "copy", Reason: "Error"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{Spec: corev1.PodSpec{NodeName: "n1"}}
			pod.Status = corev1.PodStatus{Phase: tc.phase, InitContainerStatuses: tc.init, ContainerStatuses: tc.containers}
			check.Equal(t, "problem", tc.want, startProblem(pod))
			pod.Spec.NodeName = ""
			check.Equal(t, "problem without a node", gang.StartProblem{}, startProblem(pod))
		})
	}
}

func TestAPodThatItsKubeletRefuses(t *testing.T) {
	pod := &corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodFailed, Reason: "OutOfcpu"}}
	check.Equal(t, "refused", true, refused(pod))
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "train"}}
	check.Equal(t, "one that has run", false, refused(pod))
}

func TestAPodThatCompletes(t *testing.T) {
	ended := func(code int32) corev1.ContainerStatus {
		return corev1.ContainerStatus{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code}}}
	}
	runs := corev1.ContainerStatus{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}
	tests := map[string]struct {
		containers []corev1.ContainerStatus
		policy     corev1.RestartPolicy
		phase      corev1.PodPhase
		want       bool
	}{
		"all have ended":              {[]corev1.ContainerStatus{ended(0), ended(0)}, corev1.RestartPolicyOnFailure, corev1.PodRunning, true},
		"one runs":                    {[]corev1.ContainerStatus{ended(0), runs}, corev1.RestartPolicyOnFailure, corev1.PodRunning, false},
		"one has failed":              {[]corev1.ContainerStatus{ended(0), ended(1)}, corev1.RestartPolicyNever, corev1.PodRunning, false},
		"of one nothing is known":     {[]corev1.ContainerStatus{ended(0)}, corev1.RestartPolicyNever, corev1.PodRunning, false},
		"they are restarted":          {[]corev1.ContainerStatus{ended(0), ended(0)}, corev1.RestartPolicyAlways, corev1.PodRunning, false},
		"the kubelet has said so too": {[]corev1.ContainerStatus{ended(0), ended(0)}, corev1.RestartPolicyNever, corev1.PodSucceeded, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{Spec: corev1.PodSpec{RestartPolicy: tc.policy, Containers: make([]corev1.Container, 2)}}
			pod.Status = corev1.PodStatus{Phase: tc.phase, ContainerStatuses: tc.containers}
			check.Equal(t, "completing", tc.want, podOf(pod).Completing)
		})
	}
}

// The last end of a container tells why its pod is not ready as long as the pod has not been ready since.
func TestTheEndThatAPodIsNotReadyFor(t *testing.T) {
	at := func(seconds int) metav1.Time { return metav1.NewTime(t0.Add(time.Duration(seconds) * time.Second)) }
	ended := &corev1.ContainerStateTerminated{ExitCode: 1, Reason: "Error", StartedAt: at(-9), FinishedAt: at(0)}
	want := []gang.ContainerFailure{{ExitCode: 1, Reason: "Error", StartedTime: at(-9).Time, Time: t0}}
	restarted := func(seconds int) corev1.ContainerState {
		return corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: at(seconds)}}
	}
	tests := map[string]struct {
		now     corev1.ContainerState
		unready int // s
		want    []gang.ContainerFailure
	}{
		"it waits for its restart":           {corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{}}, 1, want},
		"it has been restarted":              {restarted(2), 1, want},
		"in the second in which it ended":    {restarted(1), 1, want},
		"it was ready before it was unready": {restarted(2), 5, nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{Status: corev1.PodStatus{
				Phase:      corev1.PodRunning,
				Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: at(tc.unready)}},
				ContainerStatuses: []corev1.ContainerStatus{{
					State: tc.now, LastTerminationState: corev1.ContainerState{Terminated: ended}, RestartCount: 1,
				}},
			}}
			check.Equal(t, "failed", tc.want, podOf(pod).Failure.Containers)
			check.Equal(t, "last exit", &want[0], podOf(pod).LastExit)
		})
	}
}

func TestAPodThatNeverRan(t *testing.T) {
	made := corev1.ContainerStatus{Name: "copy", ContainerID: "containerd://1"}
	tests := map[string]struct {
		init, containers []corev1.ContainerStatus
		phase            corev1.PodPhase
		want             bool
	}{
		"nothing is said of it":     {phase: corev1.PodPending, want: true},
		"its containers wait":       {[]corev1.ContainerStatus{waiting("copy", "PodInitializing", "")}, []corev1.ContainerStatus{waiting("train", "PodInitializing", "")}, corev1.PodPending, true},
		"its init container was":    {[]corev1.ContainerStatus{made}, []corev1.ContainerStatus{waiting("train", "PodInitializing", "")}, corev1.PodPending, false},
		"its container was":         {nil, []corev1.ContainerStatus{made}, corev1.PodPending, false},
		"its container was, before": {nil, []corev1.ContainerStatus{{RestartCount: 1}}, corev1.PodPending, false},
		"it runs":                   {phase: corev1.PodRunning},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{Status: corev1.PodStatus{Phase: tc.phase, InitContainerStatuses: tc.init, ContainerStatuses: tc.containers}}
			check.Equal(t, "never ran", tc.want, podOf(pod).NeverRan)
		})
	}
}

// The sandbox of a pod cannot be made on its node: only an event says so. The others of its task run.
func TestAPodWhoseSandboxCannotBeMade(t *testing.T) {
	e := running(t)
	uid := e.setStatus("llm-1-worker-1", corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(t0)},
	}})
	e.Must(e.API.Create(t.Context(), aWarning(uid, "FailedCreatePodSandBox", "no network", t0.Add(2*time.Second))))
	e.Must(e.API.Create(t.Context(), aWarning(uid, "FailedMount", "no volume", t0.Add(time.Second))))
	e.Must(e.API.Create(t.Context(), aWarning("another", "Failed", "no image", t0.Add(3*time.Second))))
	result, err := e.reconcile()
	e.Must(err)
	if after := result.RequeueAfter; after <= 0 || after > 30*time.Second {
		t.Errorf("looks again after %s", after)
	}
	e.Clock.SetTime(t0.Add(30 * time.Second))
	e.settle()
	job := e.job()
	inc := job.Status.Incidents[0]
	check.Equal(t, "trigger", v1alpha1.PodNotStarted, inc.Trigger)
	check.Equal(t, "reason", "FailedCreatePodSandBox", inc.Cause.Reason)
	check.Equal(t, "message", "no network", inc.Cause.Message)
	check.Equal(t, "excluded", "n1", job.Status.ExcludedNodes[0].Name)
}

// No pod of the task starts: nothing is moved, and people are told why.
func TestNoPodOfATaskStarts(t *testing.T) {
	e := running(t)
	for _, name := range []string{"llm-1-worker-0", "llm-1-worker-1"} {
		e.setStatus(name, corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{waiting("train", "ErrImagePull", "no such image")}})
	}
	e.Clock.SetTime(t0.Add(time.Minute))
	e.settle()
	job := e.job()
	check.Equal(t, "incidents", 0, len(job.Status.Incidents))
	want := "2 pods, pod llm-1-worker-0 among them, cannot start on node n0, container train: ErrImagePull: no such image"
	condition := meta.FindStatusCondition(job.Status.Conditions, v1alpha1.ConditionRunning)
	check.Equal(t, "reason", v1alpha1.ReasonPodsNotStarted, condition.Reason)
	check.Equal(t, "condition", want, condition.Message)
	check.Equal(t, "message", want, job.Status.Message)
	has(t, e.Told(), "Warning PodsNotStarted "+want)
}

func aWarning(uid types.UID, reason, message string, at time.Time) client.Object {
	return &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: key.Namespace, Name: string(uid) + "." + reason},
		InvolvedObject: corev1.ObjectReference{UID: uid}, Type: corev1.EventTypeWarning, Reason: reason, Message: message,
		Source: corev1.EventSource{Component: "kubelet"}, LastTimestamp: metav1.NewTime(at),
	}
}

// setStatus gives a pod a status, as its kubelet does, and returns its UID.
func (e *env) setStatus(name string, status corev1.PodStatus) types.UID {
	e.T.Helper()
	pod := e.pod(name)
	pod.Status = status
	e.Must(e.API.Status().Update(e.T.Context(), pod))
	return pod.UID
}
