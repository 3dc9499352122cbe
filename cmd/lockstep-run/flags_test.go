package main

import (
	"strings"
	"testing"
	"time"
)

// required are the flags without which there is no supervisor.
var required = []string{"--manager-address=m.ns.svc:9444", "--ca-file=/ca", "--token-file=/token", "--epoch-file=/state/epoch"}

func TestFlags(t *testing.T) {
	t.Setenv("LOCKSTEP_EPOCH", "7")
	t.Setenv("LOCKSTEP_RUN_STOP_TIMEOUT", "3s")
	t.Setenv("LOCKSTEP_RUN_MANAGER_TIMEOUT", "4s")
	o, err := parse(append(required, "--manager-timeout=5s", "--", "torchrun", "--nnodes=2", "--", "x"))
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(o.Command, " "); got != "torchrun --nnodes=2 -- x" {
		t.Error("the command is", got)
	}
	if o.Epoch != 7 || o.Process.StopTimeout != 3*time.Second || o.ManagerTimeout != 5*time.Second {
		t.Error("the options are", o)
	}
	if o.Stream.ServerName != "m.ns.svc" || o.Process.SharedMemory != "/dev/shm" || o.Process.GPUMemoryTimeout != 50*time.Second {
		t.Error("the defaults are", o)
	}
	t.Setenv("LOCKSTEP_RUN_EPOCH", "8")
	if o, err := parse(append(required, "x")); err != nil || o.Epoch != 8 {
		t.Error("LOCKSTEP_RUN_EPOCH does not go before LOCKSTEP_EPOCH:", o, err)
	}
}

func TestEpochOfAPodWithoutOne(t *testing.T) {
	t.Setenv("LOCKSTEP_EPOCH", "")
	if o, err := parse(append(required, "x")); err != nil || o.Epoch != 1 {
		t.Error(o, err)
	}
}

func TestBadFlags(t *testing.T) {
	for name, test := range map[string]struct {
		args []string
		env  string
		want string
	}{
		"nothing":           {want: "--manager-address is missing"},
		"no CA":             {args: required[:1], want: "--ca-file is missing"},
		"no token":          {args: required[:2], want: "--token-file is missing"},
		"no epoch file":     {args: required[:3], want: "--epoch-file is missing"},
		"no command":        {args: required, want: "give its command after --"},
		"no port":           {args: append([]string{"--manager-address=m"}, append(required[1:], "x")...), want: `--manager-address: "m" is not host:port`},
		"no host":           {args: append([]string{"--manager-address=:1"}, append(required[1:], "x")...), want: "is not host:port"},
		"epoch 0":           {args: append(required, "--epoch=0", "x"), want: "--epoch: 0"},
		"negative stop":     {args: append(required, "--stop-timeout=-1s", "x"), want: "--stop-timeout: -1s"},
		"negative manager":  {args: append(required, "--manager-timeout=-1s", "x"), want: "--manager-timeout: -1s"},
		"no role":           {args: append(required, "--standby=true", "x"), want: `--standby: "true"`},
		"no warm-up time":   {args: append(required, "--warm-up-timeout=0", "x"), want: "--warm-up-timeout: 0s"},
		"a bad warm-up":     {args: append(required, "--warm-up=python", "x"), want: "-warm-up"},
		"negative GPU":      {args: append(required, "--gpu-memory-timeout=-1s", "x"), want: "--gpu-memory-timeout: -1s"},
		"a bad variable":    {args: append(required, "x"), env: "LOCKSTEP_EPOCH=first", want: `LOCKSTEP_EPOCH="first"`},
		"a bad time":        {args: append(required, "x"), env: "LOCKSTEP_RUN_STOP_TIMEOUT=5", want: `LOCKSTEP_RUN_STOP_TIMEOUT="5"`},
		"an unknown flag":   {args: append(required, "--epochs=2", "x"), want: "-epochs"},
		"an empty variable": {args: append(required, "x"), env: "LOCKSTEP_RUN_EPOCH=", want: `LOCKSTEP_RUN_EPOCH=""`},
	} {
		t.Run(name, func(t *testing.T) {
			if variable, value, ok := strings.Cut(test.env, "="); ok {
				t.Setenv(variable, value)
			}
			if _, err := parse(test.args); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("the error is %v, want %q in it", err, test.want)
			}
		})
	}
}

func TestUsage(t *testing.T) {
	p := newPod(t)
	for name, test := range map[string]struct {
		args []string
		code int
		want string
	}{
		"no command":      {nil, codeUsage, "Usage:"},
		"unknown command": {[]string{"start"}, codeUsage, `"start" is no command`},
		"help":            {[]string{"--help"}, 0, "lockstep-run install DIR"},
		"help of run":     {[]string{"run", "-h"}, 0, "LOCKSTEP_RUN_MANAGER_ADDRESS"},
		"bad run":         {[]string{"run"}, codeUsage, "--manager-address is missing"},
		"version":         {[]string{"version"}, 0, "\n"},
		"install nowhere": {[]string{"install"}, codeUsage, "lockstep-run install DIR"},
	} {
		c := p.execute(append([]string{asSupervisor}, test.args...)...)
		c.exits(test.code)
		if !strings.Contains(c.prints(), test.want) {
			t.Errorf("%s: it prints %q, want %q", name, c.prints(), test.want)
		}
	}
}

// A file of an epoch that cannot be used is said before anything is started.
func TestBadEpochFile(t *testing.T) {
	p := newPod(t)
	p.write("epoch", "seven")
	c := p.run()
	c.exits(codeFailed)
	c.says(`"seven"`)
	p.puppets.None()
}
