package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/lockstep-dev/lockstep/controllers/supervisors"
	"github.com/lockstep-dev/lockstep/health/alerts"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/test/check"
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
		"less than no holds":         {change: func(o *options) { o.maxHoldsPerQueue = -1 }, want: "--max-holds-per-queue=-1: set 0 or more"},
		"holds by two resources":     {change: func(o *options) { o.holdResources = "nvidia.com/gpu,amd.com/gpu" }},
		"holds by no resource":       {change: func(o *options) { o.holdResources = "nvidia.com/gpu, amd.com/gpu" }, want: `--hold-resources=nvidia.com/gpu, amd.com/gpu: " amd.com/gpu" is not the name of a resource: `},
		"an election in a pod":       {change: func(o *options) { o.leaderElect = true }, file: inPod},
		"an election outside":        {change: func(o *options) { o.leaderElect = true }, want: "set --leader-election-namespace"},
		"outside, with a namespace":  {change: func(o *options) { o.leaderElect, o.leaderElectNamespace = true, "lockstep-system" }},
		"alerts without certificate": {change: func(o *options) { o.alerts.Address = ":9443" }, want: "--alerts-cert-dir is missing"},
		"supervisors without image": {
			change: func(o *options) { o.supervisors.BindAddress = ":9444" }, file: inPod,
			want: "--supervisors-bind-address needs --supervisor-image",
		},
		"supervisors in a pod": {
			change: func(o *options) { o.supervisors.BindAddress, o.supervisorImage = ":9444", "lockstep-run:dev" }, file: inPod,
		},
		"supervisors outside": {
			change: func(o *options) { o.supervisors.BindAddress, o.supervisorImage = ":9444", "lockstep-run:dev" },
			want:   "--supervisors-bind-address outside a pod: set --leader-election-namespace",
		},
		"an image without supervisors": {change: func(o *options) { o.supervisorImage = "lockstep-run:dev" }},
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

// Pods reach the leader by the Service in the namespace that the manager is in, or that its lease is in.
func TestTheAddressOfSupervisors(t *testing.T) {
	inPod := filepath.Join(t.TempDir(), "namespace")
	if err := os.WriteFile(inPod, []byte("training-system\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		leaderElectNamespace, address string
		want                          string
	}{
		"of the pod":   {want: "lockstep-supervisors.training-system.svc:9444"},
		"of the lease": {leaderElectNamespace: "leases", want: "lockstep-supervisors.leases.svc:9444"},
		"as given":     {address: "manager.example:443", want: "manager.example:443"},
	} {
		t.Run(name, func(t *testing.T) {
			o := &options{supervisorImage: "lockstep-run:dev", leaderElectNamespace: tc.leaderElectNamespace}
			o.supervisors = supervisors.Options{BindAddress: ":9444", Address: tc.address}
			if err := o.validateSupervisors(inPod); err != nil {
				t.Fatal(err)
			}
			if got := o.supervisors.Reachable(); got != tc.want {
				t.Errorf("pods are given %s, want %s", got, tc.want)
			}
		})
	}
}

func TestHoldLimits(t *testing.T) {
	o := &options{holdResources: "nvidia.com/gpu,amd.com/gpu", maxHoldsPerQueue: 3}
	check.Equal(t, "limits", gang.HoldLimits{Resources: []corev1.ResourceName{"nvidia.com/gpu", "amd.com/gpu"}, NoStanding: true, MaxPerQueue: 3}, o.holdLimits())
	o = &options{standingHolds: true}
	check.Equal(t, "without resources", gang.HoldLimits{}, o.holdLimits())
}
