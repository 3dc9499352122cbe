package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockstep-dev/lockstep/controllers/supervisors"
	"github.com/lockstep-dev/lockstep/health/alerts"
)

func TestFlagsAreChecked(t *testing.T) {
	inPod := filepath.Join(t.TempDir(), "namespace")
	if err := os.WriteFile(inPod, []byte("lockstep-system"), 0o600); err != nil {
		t.Fatal(err)
	}
	outside := filepath.Join(t.TempDir(), "namespace")
	for name, tc := range map[string]struct {
		change func(*options)
		file   string
		want   string
	}{
		"the defaults":               {},
		"no workers":                 {change: func(o *options) { o.workers = 0 }, want: "--workers=0: set 1 or more"},
		"no writers":                 {change: func(o *options) { o.writers = -1 }, want: "--writers=-1: "},
		"no requests":                {change: func(o *options) { o.qps = 0 }, want: "--kube-api-qps=0: "},
		"no burst":                   {change: func(o *options) { o.burst = 0 }, want: "--kube-api-burst=0: "},
		"an election in a pod":       {change: func(o *options) { o.leaderElect = true }, file: inPod},
		"an election outside":        {change: func(o *options) { o.leaderElect = true }, want: "set --leader-election-namespace"},
		"outside, with a namespace":  {change: func(o *options) { o.leaderElect, o.leaderElectNamespace = true, "lockstep-system" }},
		"alerts without certificate": {change: func(o *options) { o.alerts.Address = ":9443" }, want: "--alerts-cert-dir is missing"},
	} {
		t.Run(name, func(t *testing.T) {
			o := &options{workers: 8, writers: 16, qps: 500, burst: 1000, alerts: alerts.Options{Address: alerts.Off}, supervisors: supervisors.Options{BindAddress: supervisors.Off}}
			if tc.change != nil {
				tc.change(o)
			}
			file := tc.file
			if file == "" {
				file = outside
			}
			err := o.validate(file)
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
		})
	}
}
