package ras

import (
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/test/check"
	"github.com/lockstep-dev/lockstep/test/fakeras"
)

// short has a test of a service that is slow end soon, and ofLines one of a service that never answers. Neither is cut by the other limit on a slow machine.
var (
	short   = limits{line: time.Minute, whole: time.Second, bytes: 1 << 20}
	ofLines = limits{line: 300 * time.Millisecond, whole: time.Minute, bytes: 1 << 20}
)

// serve has a function answer each client, and returns the address and how many there were.
func serve(t *testing.T, answer func(net.Conn)) (address string, clients func() int) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	came := make(chan bool, 100)
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			came <- true
			go func() {
				defer client.Close()
				answer(client)
			}()
		}
	}()
	return listener.Addr().String(), func() int { return len(came) }
}

// shakes is a service that answers the first commands, and then as a function says.
func shakes(answer func(net.Conn)) func(net.Conn) {
	return func(client net.Conn) {
		_, _ = io.WriteString(client, "SERVER PROTOCOL 2\nOK\nOK\n")
		answer(client)
	}
}

func waits(client net.Conn) { _, _ = io.Copy(io.Discard, client) }

func TestAsk(t *testing.T) {
	m := fakeras.New()
	m.Communicator(fakeras.Process{Host: "10.0.0.5", PID: 41}, fakeras.Process{Host: "10.0.0.6", PID: 41}).Launch("AllReduce", 0)
	report, err := Ask([]string{"NCCL_RAS_ADDR=127.0.0.1:1", "NCCL_RAS_ADDR= " + m.Serve(t), "NCCL_RAS_ENABLE=1"})
	if err != nil {
		t.Fatal(err)
	}
	check.Equal(t, "report", true, strings.Contains(report, "\n  AllReduce: 1 launched by rank 0 (10.0.0.5, pid 41); 0 by rank 1 (10.0.0.6, pid 41)\n"))
	_, err = Ask([]string{"NCCL_RAS_ADDR=" + m.Serve(t), "NCCL_RAS_ENABLE=0"})
	check.Equal(t, "turned off", "NCCL_RAS_ENABLE=0 turns NCCL RAS off", err.Error())
	check.Equal(t, "queries", 1, m.Queries())
}

// A version without JSON is reported in its own words.
func TestAskForText(t *testing.T) {
	text, err := os.ReadFile("testdata/status-2.24.3.txt")
	if err != nil {
		t.Fatal(err)
	}
	m := fakeras.New()
	m.Text = string(text)
	said, err := report(ask(m.Serve(t), usual, false))
	check.Equal(t, "error", nil, err)
	check.Equal(t, "report", strings.TrimSuffix(string(text), "\n"), strings.TrimSuffix(said, "\n"))
	m.Text += "\x1b[2J\x00\n" + strings.Repeat("x", 1000) + strings.Repeat("\n\n", 1000)
	said, err = report(ask(m.Serve(t), usual, false))
	check.Equal(t, "error", nil, err)
	bounded(t, said)
	check.Equal(t, "the end is said to be missing", true, strings.HasSuffix(said, "\n...\n"))
}

// What listens at the port may be anything: no service, one that hangs, or a hostile program.
func TestServicesThatAreNone(t *testing.T) {
	endless := func(client net.Conn) {
		for text := []byte(strings.Repeat("x", 1<<16)); ; {
			if _, err := client.Write(text); err != nil {
				return
			}
		}
	}
	for name, tc := range map[string]struct {
		answer  func(net.Conn)
		report  string // a part of it
		err     string // the end of it
		clients int
	}{
		"never answers":           {waits, "", "i/o timeout", tries},
		"accepts, and then hangs": {shakes(waits), "", "i/o timeout", 1}, // to the end of all time there is
		"closes": {func(client net.Conn) {
			_, _ = io.ReadFull(client, make([]byte, len("CLIENT PROTOCOL 2\n"))) // or the connection is reset
		}, "", "EOF", 1},
		"closes later": {shakes(func(client net.Conn) {
			_, _ = io.ReadFull(client, make([]byte, len("CLIENT PROTOCOL 2\nTIMEOUT 2\nSET FORMAT json\nVERBOSE STATUS\n")))
		}), "", "NCCL RAS has closed the connection without an answer", 1},
		"is another": {func(client net.Conn) {
			_, _ = io.WriteString(client, "HTTP/1.1 400 \x1b[2J\n")
			waits(client)
		}, "", ` is no NCCL RAS service: it says "HTTP/1.1 400 \x1b[2J"`, 1},
		"an endless line":   {endless, "", "bufio: buffer full", 1},
		"an endless answer": {shakes(endless), "The answer is not whole: it is longer than 1048576 bytes\n", "", 1},
		"half an answer": {shakes(func(client net.Conn) {
			_, _ = io.WriteString(client, `{"communicators": [{"size": 1, "ranks": [{}]}, {"size"`)
			waits(client)
		}), "i/o timeout\n1 communicator of 1 rank: ", "", 1},
		"a slow one": {shakes(func(client net.Conn) {
			for {
				if _, err := io.WriteString(client, "{"); err != nil {
					return
				}
				time.Sleep(10 * time.Millisecond)
			}
		}), "i/o timeout\n", "", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address, clients := serve(t, tc.answer)
			limits := short
			if name == "never answers" {
				limits = ofLines
			}
			said, err := report(ask(address, limits, false))
			message := ""
			if err != nil {
				message = err.Error()
			} else {
				bounded(t, said)
			}
			if !strings.HasSuffix(message, tc.err) || (tc.err == "") != (err == nil) || !strings.Contains(said, tc.report) {
				t.Errorf("%q, error %q", said, message)
			}
			check.Equal(t, "clients", tc.clients, clients())
		})
	}
}

// The first ranks of a task ask, and no rank that does not know its index.
func TestChosen(t *testing.T) {
	for _, index := range []string{"0", "1", "2"} {
		check.Equal(t, index, true, Chosen([]string{"LOCKSTEP_TASK_INDEX=" + index}))
	}
	for _, environ := range [][]string{nil, {"LOCKSTEP_TASK_INDEX="}, {"LOCKSTEP_TASK_INDEX=3"}, {"LOCKSTEP_TASK_INDEX=x"}} {
		check.Equal(t, strings.Join(environ, " "), false, Chosen(environ))
	}
}
