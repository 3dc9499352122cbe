package ranks

import (
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"strings"
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

// process is the supervisors, as the program that starts them sees them.
type process struct {
	*testing.T
	input   io.Closer
	orders  *json.Encoder
	answers *json.Decoder
	ended   chan error
}

func begin(t *testing.T, g *Gang) *process {
	in, orders := io.Pipe()
	answers, out := io.Pipe()
	p := &process{t, orders, json.NewEncoder(orders), json.NewDecoder(answers), make(chan error, 1)}
	go func() { p.ended <- serve(in, out) }()
	p.tell(g)
	return p
}

func (p *process) tell(what any) {
	p.Helper()
	if err := p.orders.Encode(what); err != nil {
		p.Fatal(err)
	}
}

func (p *process) answer() (r Restart) {
	p.Helper()
	if err := p.answers.Decode(&r); err != nil {
		p.Fatal(err)
	}
	return r
}

func (p *process) end() {
	p.Helper()
	p.input.Close()
	if err := supervision.Receive(p.T, p.ended, "end of the supervisors"); err != nil {
		p.Error(err)
	}
}

func TestARestartOfTheGang(t *testing.T) {
	manager := supervision.NewManager(t)
	p := begin(t, gangOf(t, manager, 3))
	streams := connect(manager, 3, func(string) wire.State { return wire.State_STATE_RUNNING })
	p.answer()

	p.tell(order{Fail: []int{1}})
	if failed, _ := streams["1"].Await(wire.State_STATE_FAILED); failed.Exit.GetCode() != 1 {
		t.Errorf("the report of the failure is %v", failed)
	}
	for _, start := range []bool{false, true} {
		for _, s := range streams {
			s.Order(&wire.Order{Epoch: 2, Start: start})
			s.Await(map[bool]wire.State{false: wire.State_STATE_WAITING, true: wire.State_STATE_RUNNING}[start])
		}
	}
	r := p.answer()
	if r.Epoch != 2 || r.Failed.IsZero() || r.Waiting.Before(r.Failed) || r.Running.Before(r.Waiting) {
		t.Errorf("the restart is %+v", r)
	}
	p.end()
}

// connect has so many supervisors connect, which report a state, and returns their streams by their numbers.
func connect(manager *supervision.Manager, supervisors int, state func(number string) wire.State) map[string]*supervision.Stream {
	streams := map[string]*supervision.Stream{}
	for range supervisors {
		s := manager.Next()
		number := strings.TrimPrefix(s.Authorization[0], "Bearer ")
		streams[number] = s
		s.Await(state(number))
		s.Order(&wire.Order{Epoch: 1, Start: true})
	}
	return streams
}

// A spare stands by until it has a place. Then as many programs run as there are ranks. A rank that is lost is not waited for, whether for its program or
// for its stream.
func TestASpareTakesOver(t *testing.T) {
	manager := supervision.NewManager(t)
	described := gangOf(t, manager, 3)
	described.Ranks[2].Standby = true
	p := begin(t, described)
	streams := connect(manager, 3, func(number string) wire.State {
		return map[bool]wire.State{false: wire.State_STATE_RUNNING, true: wire.State_STATE_WAITING}[number == "2"]
	})
	p.answer()

	p.tell(order{Kill: []int{0}})
	delete(streams, "0")
	for number, s := range streams {
		o := &wire.Order{Epoch: 2, Start: true}
		if number == "2" {
			o.Place = &wire.Place{Environment: []string{"LOCKSTEP_TASK_INDEX=0"}}
		}
		s.Order(o)
	}
	if r := p.answer(); r.Epoch != 2 || r.Running.Before(r.Failed) {
		t.Errorf("the take-over is %+v", r)
	}

	p.tell(order{})
	for _, s := range streams {
		s.End(nil)
	}
	connect(manager, 2, func(string) wire.State { return wire.State_STATE_RUNNING })
	if r := p.answer(); r.Waiting.Before(r.Failed) || r.Running.Before(r.Waiting) {
		t.Errorf("the streams come back: %+v", r)
	}
	p.end()
}

// The ranks connect some at a time, and each says one step after the other.
func TestAGangThatTrains(t *testing.T) {
	for _, sharing := range []int{1, 2} {
		t.Run(fmt.Sprint(sharing), func(t *testing.T) { testAGangThatTrains(t, sharing) })
	}
}

func testAGangThatTrains(t *testing.T, sharing int) {
	manager := supervision.NewManager(t)
	g := gangOf(t, manager, 3)
	g.Sharing, g.AtOnce, g.SayEvery = sharing, 2, 100*time.Millisecond
	p := begin(t, g)
	var streams []*supervision.Stream
	for range 3 {
		s := manager.Next()
		s.Await(wire.State_STATE_RUNNING)
		s.Order(&wire.Order{Epoch: 1, Start: true})
		streams = append(streams, s)
	}
	p.answer()
	for _, s := range streams {
		for step := int64(0); step < 3; {
			if now := s.Report().GetProgress(); now != nil && now.GetStep() > step {
				step = now.GetStep()
			}
		}
	}
	p.end()
}
