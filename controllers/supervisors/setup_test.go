package supervisors

import (
	"strings"
	"testing"

	"github.com/lockstep-dev/lockstep/test/check"
)

func TestOptions(t *testing.T) {
	const service = "lockstep-supervisors.lockstep-system.svc"
	for name, tc := range map[string]struct {
		options   Options
		reachable string
		names     []string
		says      string
	}{
		"by the Service":     {Options{BindAddress: ":9444", Namespace: "lockstep-system"}, service + ":9444", []string{service}, ""},
		"by another name":    {Options{":9444", "lockstep.example:443", "lockstep-system"}, "lockstep.example:443", []string{service, "lockstep.example"}, ""},
		"by an IPv6 address": {Options{":9444", "[fd00::1]:443", "lockstep-system"}, "[fd00::1]:443", []string{service, "fd00::1"}, ""},
		"no port":            {options: Options{BindAddress: "manager", Namespace: "x"}, says: "--supervisors-bind-address=manager: set host:port"},
		"port 0":             {options: Options{BindAddress: ":0", Namespace: "x"}, says: "--supervisors-bind-address=:0"},
		"no such port":       {options: Options{BindAddress: ":65536", Namespace: "x"}, says: "--supervisors-bind-address=:65536"},
		"no host":            {options: Options{":9444", ":9444", "x"}, says: "--supervisors-address=:9444: set the host:port"},
		"no port to reach":   {options: Options{":9444", "lockstep.example", "x"}, says: "--supervisors-address=lockstep.example"},
		"no namespace":       {options: Options{BindAddress: ":9444"}, says: "--leader-election-namespace"},
	} {
		t.Run(name, func(t *testing.T) {
			names, err := tc.options.names()
			if tc.says != "" {
				if err == nil || !strings.Contains(err.Error(), tc.says) {
					t.Errorf("error %v, want %s", err, tc.says)
				}
				return
			}
			must(t, err)
			check.Equal(t, "names", tc.names, names)
			check.Equal(t, "address", tc.reachable, tc.options.Reachable())
		})
	}
}

func TestNoServer(t *testing.T) {
	hub, certificates, err := SetupWithManager(nil, Options{BindAddress: Off})
	must(t, err)
	if hub != nil || certificates != nil {
		t.Error("a server that is off has a hub")
	}
}
