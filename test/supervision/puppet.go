// A program that does what a test says.

package supervision

import (
	"bufio"
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// asPuppet is the argument that makes a test binary a puppet.
const asPuppet = "puppet"

// patience is for a test that hangs; nothing is expected to take as long.
const patience = time.Minute

// said is a line from a puppet.
type said struct {
	Name, Done string   `json:",omitempty"`
	PID        int      `json:",omitempty"`
	Environ    []string `json:",omitempty"`
	Signal     int      `json:",omitempty"`
}

// BePuppet runs a puppet where the test binary was started as one, and does not return then. TestMain calls it first.
func BePuppet() {
	if len(os.Args) == 4 && os.Args[1] == asPuppet {
		os.Exit(puppetMain(os.Args[2], os.Args[3]))
	}
}

func puppetMain(socket, name string) int {
	conn, err := net.Dial("unix", socket)
	if err != nil {
		return 99 // the test is over
	}
	out := json.NewEncoder(conn)
	_ = out.Encode(said{Name: name, PID: os.Getpid(), Environ: os.Environ()})
	signals := make(chan os.Signal, 16)
	orders := make(chan []string)
	go func() {
		defer close(orders)
		for in := bufio.NewScanner(conn); in.Scan(); {
			var order []string
			_ = json.Unmarshal(in.Bytes(), &order)
			orders <- order
		}
	}()
	for {
		select {
		case s := <-signals:
			_ = out.Encode(said{Signal: int(s.(syscall.Signal))})
		case order, ok := <-orders:
			if !ok {
				return 98 // the test has let go of it
			}
			if code, ends := perform(order, socket, signals); ends {
				return code
			}
			_ = out.Encode(said{Done: order[0]})
		}
	}
}

// perform does one thing.
func perform(order []string, socket string, signals chan os.Signal) (code int, ends bool) {
	number := func() int { n, _ := strconv.Atoi(order[1]); return n }
	switch order[0] {
	case "exit":
		return number(), true
	case "die":
		signal.Reset()
		_ = syscall.Kill(os.Getpid(), syscall.Signal(number()))
		select {} // until the signal is there
	case "catch":
		signal.Notify(signals, syscall.Signal(number()))
	case "ignore":
		signal.Ignore(syscall.Signal(number()))
	case "write":
		_ = os.WriteFile(order[1], []byte(order[2]), 0o600)
	case "hold":
		_, _ = syscall.Open(order[1], syscall.O_RDONLY, 0) // until it ends
	case "spawn": // in a session of its own, and never waited for
		child := exec.Command(os.Args[0], asPuppet, socket, order[1])
		child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		_ = child.Start()
	}
	return 0, false
}

// Puppets is where puppets come to.
type Puppets struct {
	t       *testing.T
	socket  string
	arrived chan *Puppet
}

// Puppet is a running one.
type Puppet struct {
	t       *testing.T
	Name    string
	PID     int
	Environ []string
	conn    net.Conn
	done    chan string
	// Signals are those that it was told to catch and has got.
	Signals chan syscall.Signal
	ended   chan struct{}
}

// NewPuppets waits for puppets until the test ends, which lets go of all that are left.
func NewPuppets(t *testing.T) *Puppets {
	p := &Puppets{t: t, socket: filepath.Join(t.TempDir(), "s"), arrived: make(chan *Puppet, 16)}
	listener, err := net.Listen("unix", p.socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { conn.Close() })
			go p.listen(conn)
		}
	}()
	return p
}

// Command is how one is started.
func (p *Puppets) Command(name string) []string {
	return []string{os.Args[0], asPuppet, p.socket, name}
}

func (p *Puppets) listen(conn net.Conn) {
	in := json.NewDecoder(conn)
	var hello said
	if in.Decode(&hello) != nil {
		return
	}
	puppet := &Puppet{
		t: p.t, Name: hello.Name, PID: hello.PID, Environ: hello.Environ, conn: conn,
		done: make(chan string, 16), Signals: make(chan syscall.Signal, 16), ended: make(chan struct{}),
	}
	p.arrived <- puppet
	defer close(puppet.ended)
	for {
		var line said
		if in.Decode(&line) != nil {
			return
		}
		if line.Signal != 0 {
			puppet.Signals <- syscall.Signal(line.Signal)
		} else {
			puppet.done <- line.Done
		}
	}
}

// Next waits for the next puppet that has started.
func (p *Puppets) Next() *Puppet {
	p.t.Helper()
	return Receive(p.t, p.arrived, "a program that starts")
}

// None checks that no puppet has started.
func (p *Puppets) None() {
	p.t.Helper()
	select {
	case one := <-p.arrived:
		p.t.Fatalf("the program %s was started", one.Name)
	default:
	}
}

// Do lets the puppet do something, and waits until it is done.
func (p *Puppet) Do(order ...string) {
	p.t.Helper()
	p.send(order)
	Receive(p.t, p.done, strings.Join(order, " "))
}

// Exit ends the puppet with a code.
func (p *Puppet) Exit(code int) {
	p.t.Helper()
	p.send([]string{"exit", strconv.Itoa(code)})
	p.Ended()
}

// Die ends the puppet by a signal.
func (p *Puppet) Die(s syscall.Signal) {
	p.t.Helper()
	p.send([]string{"die", strconv.Itoa(int(s))})
	p.Ended()
}

func (p *Puppet) send(order []string) {
	p.t.Helper()
	if err := json.NewEncoder(p.conn).Encode(order); err != nil {
		p.t.Fatal(err)
	}
}

// Ended waits until the puppet has ended.
func (p *Puppet) Ended() {
	p.t.Helper()
	Receive(p.t, p.ended, "the end of "+p.Name)
}

// Reaped waits until somebody has reaped the puppet.
func (p *Puppet) Reaped() {
	p.t.Helper()
	for deadline := time.Now().Add(patience); syscall.Kill(p.PID, 0) == nil; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			p.t.Fatalf("%s is a zombie for ever", p.Name)
		}
	}
}

// Variables are those of the puppet's environment whose names begin with a prefix.
func (p *Puppet) Variables(prefix string) []string {
	out := slices.DeleteFunc(slices.Clone(p.Environ), func(v string) bool { return !strings.HasPrefix(v, prefix) })
	slices.Sort(out)
	return out
}

// Receive takes the next value of a channel. A closed one gives nothing.
func Receive[T any](t *testing.T, from <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(patience):
		t.Fatal("there is no " + what)
		panic("unreachable")
	}
}
