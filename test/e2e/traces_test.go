// Traces: a real OpenTelemetry collector gets the spans of a real recovery, over TLS.

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/controllers/tracing"
	"github.com/lockstep-dev/lockstep/test/cluster"
	"github.com/lockstep-dev/lockstep/test/readme"
	"github.com/lockstep-dev/lockstep/test/traces"
)

var traceReadme = flag.Bool("trace-readme", false, "put the trace of TestTheTraceOfARecovery into controllers/tracing/README.md")

// spansFile is where the collector puts what it gets: OTLP's JSON, a batch on each line.
var spansFile string

// collectorConfig is that of the docs, where only the places are this machine's, and what is printed there goes into the file.
func collectorConfig(address, certificates string) (string, error) {
	const path = "../../controllers/tracing/README.md"
	page, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	_, after, _ := strings.Cut(string(page), "```yaml\n")
	config, _, found := strings.Cut(after, "```")
	if !found {
		return "", fmt.Errorf("%s shows no configuration of a collector", path)
	}
	for from, to := range map[string]string{
		"0.0.0.0:4317":                 address,
		"/etc/otel/tls.crt":            filepath.Join(certificates, "tls.crt"),
		"/etc/otel/tls.key":            filepath.Join(certificates, "tls.key"),
		"debug: {verbosity: detailed}": "file: {path: " + spansFile + "}",
		"exporters: [debug]":           "exporters: [file]",
	} {
		if !strings.Contains(config, from) {
			return "", fmt.Errorf("the configuration of %s does not have %q", path, from)
		}
		config = strings.ReplaceAll(config, from, to)
	}
	return config, nil
}

// tracingFlags start a collector, and have the manager send it the traces of all recoveries.
func tracingFlags(ctx context.Context) ([]string, error) {
	binaries, err := cluster.Build(ctx, io.Discard, cluster.Collector)
	if err != nil {
		return nil, err
	}
	port, err := testCluster.Port()
	if err != nil {
		return nil, err
	}
	certificate, err := testCluster.CertificateDir()
	if err != nil {
		return nil, err
	}
	spansFile = filepath.Join(workDir, "spans.json")
	address, config := fmt.Sprintf("127.0.0.1:%d", port), filepath.Join(workDir, "collector.yaml")
	text, err := collectorConfig(address, certificate)
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return nil, err
	}
	_, err = testCluster.Run(ctx, cluster.Command{
		Name: cluster.Collector, Path: binaries.Path(cluster.Collector), Dir: workDir, Args: []string{"--config=file:" + config},
		Ready: func(ctx ctxT) error {
			connection, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
			if err != nil {
				return err
			}
			return connection.Close()
		},
	})
	return []string{"--tracing-endpoint=" + address, "--tracing-ca-file=" + filepath.Join(certificate, "ca.crt")}, err
}

// exportedSpans are a line of the collector's file.
type exportedSpans struct {
	ResourceSpans []struct {
		Resource   struct{ Attributes []attribute }
		ScopeSpans []struct{ Spans []span }
	}
}

type span struct {
	TraceID, SpanID, ParentSpanID      string
	Name                               string
	StartTimeUnixNano, EndTimeUnixNano string
	Attributes                         []attribute
}

type attribute struct {
	Key   string
	Value map[string]any
}

// instanceID is the attribute of a span's process that is added to those of the span.
const instanceID = "service.instance.id"

// spans are those of one trace that the collector has got.
func (s *scenario) spans(trace string) []traces.Span {
	s.t.Helper()
	content, err := os.ReadFile(spansFile)
	if os.IsNotExist(err) {
		return nil
	}
	s.must(err, "read the collector's file")
	content = content[:bytes.LastIndexByte(content, '\n')+1] // the rest is being written
	var out []traces.Span
	for line := range bytes.Lines(content) {
		var b exportedSpans
		s.must(json.Unmarshal(line, &b), "decode a line of the collector")
		for _, process := range b.ResourceSpans {
			for _, scope := range process.ScopeSpans {
				for _, is := range scope.Spans {
					out = append(out, s.spanOf(is, process.Resource.Attributes))
				}
			}
		}
	}
	return traces.Of(out, trace)
}

func (s *scenario) spanOf(is span, process []attribute) traces.Span {
	out := traces.Span{
		TraceID: is.TraceID, ID: is.SpanID, Parent: is.ParentSpanID, Name: is.Name,
		Start: s.nanos(is.StartTimeUnixNano), End: s.nanos(is.EndTimeUnixNano), Attributes: map[string]string{},
	}
	for _, a := range slices.Concat(process, is.Attributes) {
		for _, value := range a.Value {
			out.Attributes[a.Key] = fmt.Sprint(value)
		}
	}
	return out
}

func (s *scenario) nanos(text string) time.Time {
	s.t.Helper()
	nanos, err := strconv.ParseInt(text, 10, 64)
	s.must(err, "a time of a span")
	return time.Unix(0, nanos)
}

// trace waits until the collector has the whole trace of an incident: its root, and the pass that ended it.
func (s *scenario) trace(incident int32) (root traces.Span, spans []traces.Span) {
	s.t.Helper()
	id := tracing.TraceID(s.job.UID, incident).String()
	s.awaitAny("the collector has trace "+id, func(ctxT) (bool, error) {
		spans = s.spans(id)
		roots := traces.Roots(spans)
		if len(roots) == 0 {
			return false, nil
		}
		root = roots[0]
		return slices.ContainsFunc(spans, func(p traces.Span) bool { return p.Name == "pass" && p.End.After(root.End) }), nil
	})
	return root, spans
}

// firstPass waits until the collector has a pass of the trace of an incident that goes on. What the pass asks for is exported before it.
func (s *scenario) firstPass(incident int32) {
	s.t.Helper()
	id := tracing.TraceID(s.job.UID, incident).String()
	s.awaitAny("the collector has a pass of trace "+id, func(ctxT) (bool, error) {
		return slices.ContainsFunc(s.spans(id), func(p traces.Span) bool { return p.Name == "pass" }), nil
	})
}

// tracedByTwo checks that two managers, of which the first one was killed, have made spans of one trace, below the same root.
func (s *scenario) tracedByTwo(incident int32) {
	s.t.Helper()
	root, spans := s.trace(incident)
	makers := map[string]bool{}
	for _, is := range spans {
		if is.Parent == root.ID {
			makers[is.Attributes[instanceID]] = true
		}
	}
	if len(makers) < 2 {
		s.t.Errorf("the spans below the root are of processes %v: want those of both managers in\n%s", slices.Collect(maps.Keys(makers)), traces.Tree(spans))
	}
}

func TestTheTraceOfARecovery(t *testing.T) {
	s := newScenario(t, "traces", 1, 4)
	s.keepManager() // one that is killed does not export its last spans
	s.run(s.trainingJob(3))
	s.must(testCluster.FailPod(s.ctx, keyOf(s.pod(1)), 137), "fail the pod")
	s.recovered(1)
	root, spans := s.trace(1)
	t.Logf("the trace:\n%s", traces.Tree(spans))
	if *traceReadme {
		example := "```console\n" + traces.Tree(spans) + "```"
		s.must(readme.Write("../../controllers/tracing/README.md", map[readme.Section]string{"trace": example}), "write the example")
	}

	inc := s.job.Status.Incidents[0]
	begin := inc.StartTime.Time
	if ended := inc.Cause.Time; ended != nil && ended.Time.Before(begin) {
		begin = ended.Time
	}
	const precision = time.Microsecond // that of a status
	if !root.Start.Truncate(precision).Equal(begin) || !root.End.Truncate(precision).Equal(inc.EndTime.Time) {
		t.Errorf("the root is from %v to %v, and the incident from %v to %v", root.Start, root.End, begin, inc.EndTime)
	}
	var phases time.Duration
	for _, is := range spans {
		if strings.HasPrefix(is.Name, "phase ") {
			phases += is.End.Sub(is.Start)
		}
	}
	if phases != root.End.Sub(root.Start) {
		t.Errorf("the phases take %s, the root %s", phases, root.End.Sub(root.Start))
	}
	for key, want := range map[string]string{
		"service.name": "lockstep-manager", "k8s.namespace.name": namespace, "lockstep.job.name": s.job.Name,
		"lockstep.incident.trigger": "PodFailed", "lockstep.incident.outcome": "Recovered",
	} {
		if root.Attributes[key] != want {
			t.Errorf("the root's %s is %q, want %q", key, root.Attributes[key], want)
		}
	}
	if root.Attributes[instanceID] == "" {
		t.Error("the root does not say which process made it")
	}
	names := traces.Names(spans, root.ID)
	for stage, request := range map[string]string{"  record": "    PUT trainingjobs/status", "  act": "    DELETE pods"} {
		if i := slices.Index(names, request); i < 0 || !slices.Contains(names[:i], stage) {
			t.Errorf("no %q below %q in %q", request, stage, names)
		}
	}
}
