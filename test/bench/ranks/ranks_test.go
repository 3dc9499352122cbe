package ranks

import (
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/supervisor/wire"
	"github.com/lockstep-dev/lockstep/test/supervision"
)

// gangOf is a gang of a manager. The token of each rank has its number.
func gangOf(t *testing.T, manager *supervision.Manager, ranks int) *Gang {
	g := &Gang{Addresses: []string{manager.Address}, ServerName: supervision.ServerName}
	dir := t.TempDir()
	for i := range ranks {
		token := filepath.Join(dir, fmt.Sprint(i))
		manager.Write(token, fmt.Sprint(i))
		g.Ranks = append(g.Ranks, Rank{Epoch: 1, CAFile: manager.CAFile, TokenFile: token})
	}
	return g
}

func TestARestartOfTheGang(t *testing.T) {
	manager := supervision.NewManager(t)
	in, orders := io.Pipe()
	answers, out := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- serve(in, out) }()
	say, hear := json.NewEncoder(orders), json.NewDecoder(answers)
	order := func(what any) {
		t.Helper()
		if err := say.Encode(what); err != nil {
			t.Fatal(err)
		}
	}
	answer := func() (r Restart) {
		t.Helper()
		if err := hear.Decode(&r); err != nil {
			t.Fatal(err)
		}
		return r
	}

	const ranks = 3
	order(gangOf(t, manager, ranks))
	streams := map[string]*supervision.Stream{}
	for range ranks {
		s := manager.Next()
		streams[s.Authorization[0]] = s
		s.Await(wire.State_STATE_RUNNING)
		s.Order(&wire.Order{Epoch: 1, Start: true})
	}
	answer()

	order(1)
	if failed, _ := streams["Bearer 1"].Await(wire.State_STATE_FAILED); failed.Exit.GetCode() != 1 {
		t.Errorf("the report of the failure is %v", failed)
	}
	for _, s := range streams {
		s.Order(&wire.Order{Epoch: 2})
	}
	for _, s := range streams {
		s.Await(wire.State_STATE_WAITING)
	}
	for _, s := range streams {
		s.Order(&wire.Order{Epoch: 2, Start: true})
	}
	r := answer()
	if r.Epoch != 2 || r.Failed.IsZero() || r.Waiting.Before(r.Failed) || r.Running.Before(r.Waiting) {
		t.Errorf("the restart is %+v", r)
	}

	orders.Close()
	if err := supervision.Receive(t, ended, "end of the supervisors"); err != nil {
		t.Error(err)
	}
}

// The ranks connect some at a time, and each says one step after the other.
func TestAGangThatTrains(t *testing.T) {
	for _, sharing := range []int{1, 2} {
		t.Run(fmt.Sprint(sharing), func(t *testing.T) { testAGangThatTrains(t, sharing) })
	}
}

func testAGangThatTrains(t *testing.T, sharing int) {
	manager := supervision.NewManager(t)
	in, orders := io.Pipe()
	answers, out := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- serve(in, out) }()
	g := gangOf(t, manager, 3)
	g.Sharing, g.AtOnce, g.SayEvery = sharing, 2, 100*time.Millisecond
	go func() { _ = json.NewEncoder(orders).Encode(g) }()
	var streams []*supervision.Stream
	for range 3 {
		s := manager.Next()
		s.Await(wire.State_STATE_RUNNING)
		s.Order(&wire.Order{Epoch: 1, Start: true})
		streams = append(streams, s)
	}
	if err := json.NewDecoder(answers).Decode(&Restart{}); err != nil {
		t.Fatal(err)
	}
	for _, s := range streams {
		for step := int64(0); step < 3; {
			if now := s.Report().GetProgress(); now != nil && now.GetStep() > step {
				step = now.GetStep()
			}
		}
	}
	orders.Close()
	if err := supervision.Receive(t, ended, "end of the supervisors"); err != nil {
		t.Error(err)
	}
}
