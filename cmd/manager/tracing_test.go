package main

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
	"go.opentelemetry.io/otel"

	"github.com/lockstep-dev/lockstep/test/check"
)

func TestTracingFlags(t *testing.T) {
	noPEM := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(noPEM, []byte("DER"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		args []string
		want string // empty: none is wrong
		on   bool
	}{
		"off":              {},
		"on":               {args: []string{"--tracing-endpoint=localhost:4317"}, on: true},
		"IPv6":             {args: []string{"--tracing-endpoint=[::1]:4317", "--tracing-insecure"}, on: true},
		"a URL":            {args: []string{"--tracing-endpoint=http://localhost:4317"}, want: "--tracing-endpoint=http://localhost:4317: set the host:port"},
		"no port":          {args: []string{"--tracing-endpoint=collector"}, want: "--tracing-endpoint=collector: set the host:port"},
		"more than all":    {args: []string{"--tracing-sampling-rate-per-million=1000001"}, want: "--tracing-sampling-rate-per-million=1000001: set a number from 0 to 1000000"},
		"less than none":   {args: []string{"--tracing-sampling-rate-per-million=-1"}, want: "--tracing-sampling-rate-per-million=-1: set"},
		"TLS and none":     {args: []string{"--tracing-insecure", "--tracing-ca-file=/ca.crt"}, want: "--tracing-insecure and --tracing-ca-file=/ca.crt: set one of them"},
		"no such file":     {args: []string{"--tracing-endpoint=a:1", "--tracing-ca-file=/none"}, want: "--tracing-ca-file: open /none"},
		"not an authority": {args: []string{"--tracing-endpoint=a:1", "--tracing-ca-file=" + noPEM}, want: "no certificate in PEM"},
	} {
		t.Run(name, func(t *testing.T) {
			var o tracingOptions
			flags := flag.NewFlagSet("manager", flag.ContinueOnError)
			o.bindFlags(flags)
			if err := flags.Parse(tt.args); err != nil {
				t.Fatal(err)
			}
			traces, err := o.tracer(t.Context())
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
			check.Equal(t, "on", tt.on, traces != nil)
			stopTracing(traces)
		})
	}
}

// A collector that stays away is a line of the log now and then, and not one for each batch of spans.
func TestACollectorThatIsAwayIsToldOnce(t *testing.T) {
	var lines []string
	complainBy(funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{}))
	for range 3 {
		otel.Handle(errors.New("connection refused"))
	}
	check.Equal(t, "lines", 1, len(lines))
	if !strings.Contains(lines[0], "connection refused") {
		t.Errorf("the log says %q", lines[0])
	}
}
