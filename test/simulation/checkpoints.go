package simulation

import (
	"slices"

	"github.com/lockstep-dev/lockstep/policies"
	"github.com/lockstep-dev/lockstep/policies/gang"
)

// Programs that are asked for a checkpoint save, refuse, cannot be reached or sleep.

// ask posts to a pod. It does not wait for the answer.
func (t *tenant) ask(a policies.Ask, p policies.AskedPod) {
	key := gang.AnswerKey{Request: a.ID, Pod: p.UID}
	t.checkAsk(a, p)
	if slices.Contains(t.ledger.posts, key) {
		t.happened("pod is asked again by another process")
	}
	t.ledger.posts = append(t.ledger.posts, key)
	if t.acting.answers == nil {
		t.acting.answers = map[gang.AnswerKey]gang.Answer{}
	}
	t.acting.answers[key] = gang.Answer{}
	t.acting.posts = append(t.acting.posts, key)
	t.changed("the manager asks pod %s for a checkpoint", p.Name)
}

// programsAnswer lets the programs that were asked do what they do.
func (t *tenant) programsAnswer() {
	m := t.manager
	for _, key := range m.posts {
		a := m.answers[key]
		if a.Saved || a.Refused || t.lazy() {
			continue
		}
		switch p := t.podOfUID(key.Pod); {
		case p == nil || !t.executes(p) || t.one(6):
			if a.Message == "" {
				t.answer(m, key, gang.Answer{Message: "connection refused"})
			}
		case t.one(6):
			t.answer(m, key, gang.Answer{Refused: true, Message: "answered 500 Internal Server Error"})
		case !t.one(3):
			t.ledger.saved[key] = true
			if !t.one(8) { // else the answer is lost
				t.answer(m, key, gang.Answer{Saved: true})
			}
		}
	}
}

func (t *tenant) answer(m *manager, key gang.AnswerKey, a gang.Answer) {
	m.answers[key] = a
	t.changed("pod of uid %s answers %+v", key.Pod, a)
}
