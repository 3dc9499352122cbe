package main

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/lockstep-dev/lockstep/audit"
	"github.com/lockstep-dev/lockstep/supervisor/wire"
)

// What kubectl lockstep audit --pod-logs judges is what a supervisor really logs of its reports.
func TestAuditReadsWhatIsLogged(t *testing.T) {
	p := newPod(t)
	c := p.run()
	first := p.puppets.Next()
	s := p.connected(&wire.Order{Epoch: 1})
	s.Await(running)
	first.Exit(3)
	s.Await(failedState)
	s.Order(&wire.Order{Epoch: 2, Start: true})
	second := p.puppets.Next()
	s.Await(running)
	second.Exit(0)
	s.Await(succeeded)
	s.Ended()
	c.exits(0)

	var kept strings.Builder // a kubelet puts the time and the stream before each line
	for line := range strings.Lines(c.prints()) {
		kept.WriteString("2026-01-02T15:04:05.000000000Z stderr F " + line)
	}
	made := `{"stage": "ResponseComplete", "verb": "create", "objectRef": {"resource": "pods", "namespace": "ml", "name": "llama-1-worker-0"},` +
		` "responseStatus": {"code": 201}, "requestReceivedTimestamp": "2026-01-02T15:00:00.000000Z", "stageTimestamp": "2026-01-02T15:00:00.000000Z",` +
		` "responseObject": {"metadata": {"namespace": "ml", "name": "llama-1-worker-0", "uid": "u", "labels": {"lockstep.dev/job-uid": "j", "lockstep.dev/task": "worker"}}}}`
	report, err := audit.Check(audit.Options{PodLogs: fstest.MapFS{"ml_llama-1-worker-0_u/worker/0.log": {Data: []byte(kept.String())}}}, strings.NewReader(made))
	if err != nil {
		t.Fatal(err)
	}
	if report.Pods != 1 || report.Reports < 4 {
		t.Errorf("%d pods and %d reports were read, of one pod that reported two runs and their ends, in\n%s", report.Pods, report.Reports, kept.String())
	}
}
