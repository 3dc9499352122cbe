package main

import (
	"errors"
	"net"
	"os"
	"strings"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/lockstep-dev/lockstep/controllers"
	"github.com/lockstep-dev/lockstep/controllers/supervisors"
	"github.com/lockstep-dev/lockstep/controllers/volcano"
)

// validateSupervisors completes the options of the stream of supervisors by the manager's own namespace, and says what is missing.
func (o *options) validateSupervisors(namespaceFile string) error {
	if o.supervisors.BindAddress == supervisors.Off {
		return nil
	}
	if o.supervisorImage == "" {
		return errors.New("--supervisors-bind-address needs --supervisor-image: name the image of lockstep-run")
	}
	if o.supervisors.Namespace = o.leaderElectNamespace; o.supervisors.Namespace == "" {
		own, err := os.ReadFile(namespaceFile)
		if err != nil {
			return errors.New("--supervisors-bind-address outside a pod: set --leader-election-namespace to the manager's namespace")
		}
		o.supervisors.Namespace = strings.TrimSpace(string(own))
	}
	return nil
}

// supervision is nil where it is off.
func (o *options) supervision(mgr ctrl.Manager) (*controllers.Supervision, error) {
	hub, certificates, err := supervisors.SetupWithManager(mgr, o.supervisors)
	if err != nil || hub == nil {
		return nil, err
	}
	host, _, err := net.SplitHostPort(o.supervisors.Reachable())
	return &controllers.Supervision{
		Pods: volcano.Supervision{Image: o.supervisorImage, Address: o.supervisors.Reachable(), ServerName: host},
		Hub:  hub, Authorities: certificates.Bundle,
	}, err
}
