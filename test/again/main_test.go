package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// What the load has started ends with it.
func TestTheLoadEnds(t *testing.T) {
	file := filepath.Join(t.TempDir(), "load.out")
	beside, err := startLoad("sleep 1000 & echo $!; wait", file)
	if err != nil {
		t.Fatal(err)
	}
	child := ""
	for child == "" {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		child = strings.TrimSpace(string(raw))
		time.Sleep(time.Millisecond)
	}
	if err := beside.end(); err != nil {
		t.Fatal(err)
	}
	for isAlive(child) {
		time.Sleep(time.Millisecond) // until the kernel has ended it, or the test's time is over
	}
}

// isAlive reports whether a process is there and has not ended.
func isAlive(pid string) bool {
	raw, err := os.ReadFile(filepath.Join("/proc", pid, "stat"))
	return err == nil && !strings.Contains(string(raw), ") Z ")
}

// Tests that ran without a load have shown nothing.
func TestALoadThatHasEndedIsAnError(t *testing.T) {
	beside, err := startLoad("exit 3", filepath.Join(t.TempDir(), "load.out"))
	if err != nil {
		t.Fatal(err)
	}
	<-beside.over
	if err := beside.end(); err == nil || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("it has ended, and the error is: %v", err)
	}
}
