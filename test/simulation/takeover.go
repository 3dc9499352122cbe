package simulation

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"k8s.io/utils/ptr"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/supervisor/epoch"
	"github.com/lockstep-dev/lockstep/supervisor/wire"
)

// Take-over: spares with supervisors become ranks. Volcano knows pods by their names, and all else by the ranks that the status gives them.

// drawTakeOver has the spares of some supervised jobs take over. It is drawn apart, so that other histories are as they were.
func (t *tenant) drawTakeOver(spec *v1alpha1.Supervisor) {
	spares, elastic := false, false
	for i := range t.job.Spec.Tasks {
		task := &t.job.Spec.Tasks[i]
		spares = spares || ptr.Deref(task.Spares, 0) > 0
		elastic = elastic || task.MinReplicas != nil || task.MaxReplicas != nil
	}
	if spares && !elastic && spec.Survivors != v1alpha1.SurvivorsKeep && t.takeovers.IntN(2) == 0 {
		spec.TakeOver = &v1alpha1.TakeOver{}
		if t.takeovers.IntN(2) == 0 {
			spec.TakeOver.WarmUp = &v1alpha1.WarmUp{Command: []string{"warm-up"}, TimeoutSeconds: new(1 + t.takeovers.Int32N(60))}
		}
	}
}

func (t *tenant) takesOver() bool { return t.supervised && t.job.Spec.Supervisor.TakeOver != nil }

// warmUpTime is how long a pod may warm up; 0 where it does not.
func (t *tenant) warmUpTime(p *pod) time.Duration {
	if !t.takesOver() || p.standby != v1alpha1.StandbySpare || t.job.Spec.Supervisor.TakeOver.WarmUp == nil {
		return 0
	}
	return seconds(*t.job.Spec.Supervisor.TakeOver.WarmUp.TimeoutSeconds)
}

// stepWarmUp ends a warm-up that is stopped or killed, and others sooner or later. While all is calm it ends well.
func (t *tenant) stepWarmUp(p *pod) {
	code := int32(0)
	switch {
	case p.stopping || p.forwarded:
		code = exitStopped
	case t.calm:
	case t.takeovers.IntN(4) > 0:
		return
	case t.takeovers.IntN(3) == 0:
		code = 1
		t.happened("spare fails to warm up")
	}
	p.warming, p.forwarded, p.warm = false, false, p.warm || code == 0
	t.inform(p, epoch.Ended{Exit: &wire.Exit{Code: code}})
}

// place has all pods be of the ranks that the status gives them.
func (t *tenant) place() {
	if t.takesOver() {
		for _, p := range t.pods {
			placeBy(&t.job.Status, &p.Pod)
		}
	}
}

// placed are pods that are of the ranks that a status gives them.
func (t *tenant) placed(pods []gang.Pod, s *v1alpha1.TrainingJobStatus) []gang.Pod {
	if !t.takesOver() {
		return pods
	}
	pods = slices.Clone(pods)
	for i := range pods {
		placeBy(s, &pods[i])
	}
	return pods
}

// placeBy has a pod be of the rank, or the spare, that a status gives it, and otherwise of that in its name.
func placeBy(s *v1alpha1.TrainingJobStatus, p *gang.Pod) {
	task, index, by := p.Slot.Task, p.Slot.Index, v1alpha1.RankPod{}
	name := fmt.Sprintf("%s-%d", task, index)
	for _, t := range s.Tasks {
		for _, entry := range t.Pods {
			if entry.Pod == name && p.Attempt == entry.Attempt {
				task, index, by = t.Name, entry.Index, entry
			}
		}
	}
	p.Task, p.Spare = strings.CutSuffix(task, v1alpha1.SpareSuffix)
	p.Index = index
	if string(by.UID) == p.UID {
		p.Incarnation = max(p.Incarnation, by.Incarnation)
	}
}

// placeCached has the pods that a manager sees be of the ranks that it has decided on.
func (m *manager) placeCached(t *tenant, s *v1alpha1.TrainingJobStatus) {
	cache := *m.cache
	cache.Pods = t.placed(cache.Pods, s)
	m.cache = &cache
}

// givePlaces has supervisors know that they are superseded, or which rank they are.
func (t *tenant) givePlaces(plan *policies.Plan) {
	for _, uid := range plan.Superseded {
		if p := t.podOfUID(uid); p != nil {
			p.superseded = cmp.Or(p.superseded, plan.Order.Epoch)
			if t.isGivenUp(p, t.acting.cache.Now) {
				p.givenUp = plan.Order.Epoch
			}
		}
	}
	for _, p := range t.pods {
		place, placed := plan.Places[p.UID]
		t.require(OneLife, !placed || (!p.Spare && p.Index == place.Index), "pod %s is given rank %d, and is %v", p.Name, place.Index, p.rank())
		if placed && !p.placed {
			t.happened("spare takes over a rank")
			t.require(OneLife, t.warmUpTime(p) == 0 || p.warm || !t.wasSpare(p), "pod %s is given rank %d before it has warmed up", p.Name, place.Index)
		}
		p.placed = placed
	}
}

// wasSpare reports whether a pod was a spare's when it became that of its rank.
func (t *tenant) wasSpare(p *pod) bool {
	return slices.ContainsFunc(t.job.Status.Tasks, func(s v1alpha1.TaskStatus) bool {
		return slices.ContainsFunc(s.Pods, func(entry v1alpha1.RankPod) bool { return string(entry.UID) == p.UID })
	})
}

// takeoversOf is what is drawn about spares that take over.
func takeoversOf(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 9)) }
