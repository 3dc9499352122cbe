// Programs that report themselves. Each keeps a connection, by which it is asked what it has launched. One that is stopped does not answer.

package fakeras

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
	"time"
)

// legTime is how long a process has for an answer.
const legTime = time.Second

// hello is what a process says first: where it is, and its rank in the one communicator.
type hello struct {
	Host string `json:"host"`
	PID  int    `json:"pid"`
	Rank int    `json:"rank"`
}

// counts is a process's answer to the question of a number.
type counts struct {
	Question int               `json:"question"`
	Launched map[string]uint64 `json:"launched"`
}

// live is a process that has reported itself.
type live struct {
	hello
	client  net.Conn
	answers chan counts

	question int
	launched map[string]uint64
	silent   bool
}

// join takes a process into the mesh, until its connection ends.
func (m *Mesh) join(client net.Conn, lines *bufio.Scanner) {
	p := &live{client: client, answers: make(chan counts, 8)}
	if err := json.Unmarshal(lines.Bytes(), &p.hello); err != nil {
		return
	}
	m.mu.Lock()
	m.live[p.Rank] = p
	m.mu.Unlock()
	for lines.Scan() {
		var c counts
		if json.Unmarshal(lines.Bytes(), &c) == nil {
			select {
			case p.answers <- c:
			default: // more answers than questions
			}
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.live[p.Rank] == p {
		delete(m.live, p.Rank)
	}
}

// Close ends the service, and its connections to processes.
func (m *Mesh) Close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, listener := range m.listeners {
		listener.Close()
	}
	for _, p := range m.live {
		p.client.Close()
	}
}

// ask asks all processes that have reported themselves, side by side. They are one communicator.
func (m *Mesh) ask() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.live) == 0 {
		return
	}
	var all sync.WaitGroup
	for _, p := range m.live {
		all.Go(p.ask)
	}
	all.Wait()
	c := &Communicator{mesh: m, left: map[int]bool{}}
	for rank := range slices.Max(slices.Collect(maps.Keys(m.live))) + 1 {
		p := m.live[rank]
		if p == nil {
			p, c.left[rank] = &live{}, true
		}
		process := Process{p.Host, p.PID}
		c.members, c.counts = append(c.members, process), append(c.counts, p.launched)
		if delete(m.silent, process); p.silent {
			m.silent[process] = false
		}
	}
	m.communicators = []*Communicator{c}
}

// ask waits for the answer to a new question, and forgets those to earlier ones.
func (p *live) ask() {
	p.question++
	p.silent = true
	if _, err := fmt.Fprintf(p.client, "%d\n", p.question); err != nil {
		return
	}
	for timeout := time.After(legTime); ; {
		select {
		case c := <-p.answers:
			if c.Question == p.question {
				p.launched, p.silent = c.Launched, false
				return
			}
		case <-timeout:
			return
		}
	}
}
