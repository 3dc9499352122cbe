// The program that docs/researchers.md shows is run, and asked as the manager asks.

package controllers

import (
	"context"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/policies"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/test/check"
)

// block is the first block of a language in a page, below the heading of the handshake.
func block(t *testing.T, page, language string) string {
	t.Helper()
	raw, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(raw), "\n## Checkpoint handshake\n")
	_, after, opened := strings.Cut(section, "\n```"+language+"\n")
	text, _, closed := strings.Cut(after, "```")
	if !opened || !closed {
		t.Fatalf("%s has no block of %s", page, language)
	}
	return text
}

func TestDocumentedCheckpointIsThatOfTheSample(t *testing.T) {
	sample, err := os.ReadFile("../config/samples/checkpoint.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if text := block(t, "../docs/researchers.md", "yaml"); !strings.Contains(string(sample), text) {
		t.Errorf("not in the sample:\n%s", text)
	}
}

// training is what the page leaves out: it trains, and writes a file when it saves.
const training = `
import sys, time

first_step, last_step = 0, 1 << 30
def train(step): time.sleep(0.01)
def any_rank(flag): return flag
def save(step):
    time.sleep(0.05)
    open(sys.argv[1], "a").write(f"step {step}\\n")
`

func TestDocumentedProgramSavesWhenItIsAsked(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("needs python3, to run the program of docs/researchers.md")
	}
	port := reservePort(t)
	file := t.TempDir() + "/checkpoint"
	ctx, stop := context.WithCancel(t.Context())
	cmd := exec.CommandContext(ctx, python, "-c", training+block(t, "../docs/researchers.md", "python"), file)
	cmd.Env = append(os.Environ(), "CHECKPOINT_PORT="+strconv.Itoa(port))
	var said strings.Builder
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		stop()
		_ = cmd.Wait() // it was killed
		if t.Failed() {
			t.Logf("the program says:\n%s", said.String())
		}
	}()
	c := &checkpoints{}
	for i := range 3 { // it may not listen yet: then it is asked again
		id := strconv.Itoa(i)
		c.send(key, policies.Ask{ID: id, Port: int32(port), Path: "/checkpoint", Pods: []policies.AskedPod{{UID: "u", IP: "127.0.0.1"}}}, time.Minute)
		c.running.Wait()
		check.Equal(t, "answer", gang.Answer{Saved: true}, c.answers(key)[gang.AnswerKey{Request: id, Pod: "u"}])
		written, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		check.Equal(t, "checkpoints that are written by then", i+1, strings.Count(string(written), "step"))
	}
}
