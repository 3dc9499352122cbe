package main

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

func on(uid types.UID, node string) life { return life{uid: uid, node: node} }

func TestCompare(t *testing.T) {
	before := lives{0: on("a", "p-r0-n0"), 1: on("b", "p-r0-n1"), 2: on("c", "p-r1-n0"), 3: on("d", "p-r1-n1")}
	after := lives{0: on("a", "p-r0-n0"), 1: on("b2", "p-r0-n1"), 2: on("c2", "p-r1-n5"), 3: on("d2", "p-r0-n7")}
	s := &sample{}
	s.compare(before, after, 1)
	if s.touched != 2 {
		t.Errorf("%d healthy pods were replaced, want 2", s.touched)
	}
	if want := (places{own: 1, rack: 1, elsewhere: 1}); s.places != want {
		t.Errorf("places %+v, want %+v", s.places, want)
	}
}

func TestReplacedLeavesOutWhoIsMissing(t *testing.T) {
	before := lives{0: on("a", "n"), 1: on("b", "n")}
	if got := before.replaced(lives{0: on("a2", "n")}); len(got) != 1 || got[0].uid != "a2" {
		t.Errorf("got %v, want rank 0 alone", got)
	}
}

func TestSameNodes(t *testing.T) {
	a := lives{0: on("a", "n0"), 1: on("b", "n1")}
	if !sameNodes(a, lives{0: on("c", "n1"), 1: on("d", "n0")}) {
		t.Error("two ranks that change places have the same nodes")
	}
	if sameNodes(a, lives{0: on("a", "n0"), 1: on("d", "n2")}) {
		t.Error("n2 is not n1")
	}
	if sameNodes(a, lives{0: on("a", "n0")}) {
		t.Error("one rank is missing")
	}
}

func TestSamplesThatNeverCameHaveNoTime(t *testing.T) {
	r := &results{samples: []*sample{
		{pods: 4, side: lockstep.name, figure: restartPod, came: true, took: time.Second},
		{pods: 4, side: lockstep.name, figure: restartPod},
		{pods: 4, side: volcano.name, figure: restartPod, came: true, took: time.Hour},
		{pods: 64, side: lockstep.name, figure: restartPod, came: true, took: time.Hour},
	}}
	s := r.of(4, &lockstep, restartPod)
	if got := s.times(); len(got) != 1 || got[0] != time.Second {
		t.Errorf("times %v, want one second", got)
	}
	if want, got := "1.00 s (1.00–1.00), 1 of 2 never", s.String(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestRecorder(t *testing.T) {
	r := &recorder{gangs: map[string]map[types.UID]*life{}}
	pod := func(name string, uid types.UID, node string, phase corev1.PodPhase) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, UID: uid, Labels: map[string]string{"volcano.sh/job-name": "j"}},
			Spec:       corev1.PodSpec{NodeName: node}, Status: corev1.PodStatus{Phase: phase},
		}
	}
	at := func(s int64) time.Time { return time.Unix(s, 0) }
	r.note(pod("j-worker-3", "a", "", corev1.PodPending), false, at(1))
	r.note(pod("j-worker-3", "a", "n", corev1.PodPending), false, at(2))
	r.note(pod("j-worker-3", "a", "n", corev1.PodRunning), false, at(3))
	r.note(pod("j-worker-3", "a", "n", corev1.PodRunning), false, at(4))
	r.note(pod("j-worker-3", "a", "n", corev1.PodFailed), false, at(5))

	l := r.present("j")[3]
	if l.made != at(1) || l.bound != at(2) || l.running != at(3) || l.failed != at(5) {
		t.Errorf("times %+v", l)
	}
	r.note(pod("j-worker-3", "b", "", corev1.PodPending), false, at(6))
	if got := r.present("j")[3]; got.uid != "b" {
		t.Errorf("the present pod is %s, want the later one", got.uid)
	}
	r.note(cache.DeletedFinalStateUnknown{}, true, at(7)) // of no known pod
	r.note(pod("j-worker-3", "a", "n", corev1.PodFailed), true, at(7))
	if got := r.life("j", "a"); got.gone != at(7) {
		t.Errorf("gone at %s, want %s", got.gone, at(7))
	}
	if r.present("j").run(1) {
		t.Error("no pod runs")
	}
	r.forget("j")
	if len(r.present("j")) != 0 {
		t.Error("the gang is not forgotten")
	}
}
