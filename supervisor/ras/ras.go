// Package ras asks NCCL's RAS service, which NCCL 2.24 and later run in each process, which collective operations the ranks of its communicators have
// launched, and reports where ranks differ. It needs no change to the program. Every byte of an answer may be a hostile program's.
//
// The protocol and the names of the fields are those of src/ras/client_support.cc of github.com/NVIDIA/nccl, 2.24.3 to 2.30.7.
package ras

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Ranks is how many ranks of each task are asked, those with the lowest indices. One rank answers for all of its mesh; the others are there in case
// it is stopped.
const Ranks = 3

// The variables of a program that say where its RAS service is, and whether it has one. NCCL also reads them from its configuration files, which are not read here.
const (
	envAddress     = "NCCL_RAS_ADDR"
	envEnable      = "NCCL_RAS_ENABLE"
	defaultAddress = "localhost:28028"
	envTaskIndex   = "LOCKSTEP_TASK_INDEX"
)

// tries is how often a connection is made that nobody answers: the processes of a container share the port, and one of them may be stopped.
const tries = 3

// legSeconds is how long RAS itself waits for a rank. It gives up on all of them 5 s later.
const legSeconds = 2

// limits of a query: the time for a line and for the whole, and the size of an answer. An entry of a rank has 640 bytes at most, so 16 MiB are a thousand ranks
// that are in 25 communicators each.
type limits struct {
	line, whole time.Duration
	bytes       int64
}

var usual = limits{line: time.Second, whole: 10 * time.Second, bytes: 16 << 20}

// Chosen reports whether the rank with this environment is one of the first Ranks of its task. It is not where LOCKSTEP_TASK_INDEX says nothing.
func Chosen(environ []string) bool {
	index, err := strconv.Atoi(lookup(environ, envTaskIndex))
	return err == nil && index < Ranks
}

// Ask asks the RAS service of the processes of this network namespace, and returns a report of at most maxLines lines. The environment is that of the
// program: NCCL_RAS_ADDR is the service's address, by default localhost:28028, and NCCL_RAS_ENABLE=0 an error. It takes 10 s at most. With hostNetwork
// the service may be another job's.
func Ask(environ []string) (string, error) {
	address, err := addressOf(environ)
	if err != nil {
		return "", err
	}
	return report(ask(address, usual, false))
}

// addressOf is that of the RAS service of a program with this environment.
func addressOf(environ []string) (string, error) {
	if n, err := strconv.Atoi(lookup(environ, envEnable)); err == nil && n == 0 {
		return "", errors.New(envEnable + "=0 turns NCCL RAS off")
	}
	return cmp.Or(lookup(environ, envAddress), defaultAddress), nil
}

func lookup(environ []string, name string) string {
	for _, v := range slices.Backward(environ) {
		if value, is := strings.CutPrefix(v, name+"="); is {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// answer is that of a service. It is text before NCCL 2.28.7.
type answer struct {
	text []byte
	json bool
	// cut is why it has no end; nil where it is whole.
	cut error
}

// ask asks a service, one with JSON alone if onlyJSON.
func ask(address string, l limits, onlyJSON bool) (a answer, err error) {
	deadline := time.Now().Add(l.whole)
	for range tries {
		a, err = query(address, l, deadline, onlyJSON)
		if late, is := errors.AsType[net.Error](err); !is || !late.Timeout() || !time.Now().Before(deadline) {
			break
		}
	}
	return a, err
}

func query(address string, l limits, deadline time.Time, onlyJSON bool) (a answer, err error) {
	connection, err := (&net.Dialer{Timeout: l.line, Deadline: deadline}).Dial("tcp", address)
	if err != nil {
		return a, err
	}
	defer connection.Close()
	from := bufio.NewReader(connection)
	if a.json, err = shake(connection, from, l.line, deadline); err != nil {
		return a, err
	}
	if onlyJSON && !a.json {
		return a, errors.New("this version of NCCL RAS knows no JSON")
	}
	_ = connection.SetDeadline(deadline)
	if _, err := io.WriteString(connection, "VERBOSE STATUS\n"); err != nil {
		return a, err
	}
	a.text, a.cut = io.ReadAll(io.LimitReader(from, l.bytes+1))
	if a.cut == nil && int64(len(a.text)) > l.bytes {
		a.cut = fmt.Errorf("it is longer than %d bytes", l.bytes)
	}
	if len(a.text) == 0 {
		return a, cmp.Or(a.cut, errors.New("NCCL RAS has closed the connection without an answer"))
	}
	return a, nil
}

// shake says hello and how the answer should be, and returns whether that will be JSON: before 2.28.7 it is text.
func shake(to net.Conn, from *bufio.Reader, within time.Duration, deadline time.Time) (json bool, err error) {
	say := func(command string) (string, error) {
		_ = to.SetDeadline(time.Now().Add(min(within, time.Until(deadline))))
		if _, err := io.WriteString(to, command+"\n"); err != nil {
			return "", err
		}
		answer, err := from.ReadSlice('\n')
		return strings.TrimSpace(string(answer)), err
	}
	hello, err := say("CLIENT PROTOCOL 2")
	if err != nil {
		return false, err
	}
	if !strings.HasPrefix(hello, "SERVER PROTOCOL ") {
		return false, fmt.Errorf("%s is no NCCL RAS service: it says %.40q", to.RemoteAddr(), hello)
	}
	if _, err := say(fmt.Sprintf("TIMEOUT %d", legSeconds)); err != nil {
		return false, err
	}
	format, err := say("SET FORMAT json")
	return format == "OK", err
}
