// Whether the supervisors of jobs find the manager, and it has certificates that they trust.

package check

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// Names of what the supervisors need in a manager's namespace (controllers/supervisors).
const (
	supervisorsService   = "lockstep-supervisors"
	supervisorsAuthority = "lockstep-supervisor-ca"
)

// Supervision is what there is in a namespace for supervisors.
type Supervision struct {
	// Service by which they find the leader; nil where there is none. Ready are the pods behind it that are ready.
	Service *corev1.Service
	Ready   []string
	// Authority signs the manager's certificate. It is nil where there is no such Secret, or where it is Hidden: it has a private key, which
	// the role lockstep-check must not show.
	Authority *corev1.Secret
	Hidden    bool
}

// howToServe says how a manager is made to take supervisors.
const howToServe = "Set supervisors.enabled=true and supervisors.image.repository in the chart's values, or run `make install CONFIG=config/supervisors` with SUPERVISOR_IMG. docs/operators.md says more."

// supervision looks at each manager that takes supervisors, and for one where jobs need it.
func supervision(c *Cluster) (string, []Finding) {
	var out []Finding
	addresses := map[string]bool{}
	for i := range c.Managers.Items {
		if d := &c.Managers.Items[i]; takesSupervisors(d) {
			addresses[supervisorsAddress(d)] = true
			out = append(out, c.serves(d)...)
		}
	}
	jobs := c.supervised()
	saw := "for " + count(len(jobs), "TrainingJob")
	switch {
	case len(addresses) > 0:
		return strings.Join(slices.Sorted(maps.Keys(addresses)), ", ") + " " + saw, out
	case len(c.Managers.Items) == 0:
		return "elsewhere: no Deployment says whether the manager takes them", nil
	case len(jobs) == 0:
		return "off", nil
	}
	d := &c.Managers.Items[0]
	return "off, " + saw, []Finding{{
		Severity: Problem, Subject: "Deployment/" + d.Namespace + "/" + d.Name,
		What: fmt.Sprintf("Its flag --supervisors-bind-address is not set, so that it takes no supervisors, and spec.supervisor is in %s: %s. They do not start, or not again.",
			count(len(jobs), "TrainingJob"), some(jobs)),
		Fix: howToServe + " Or create the jobs without spec.supervisor.",
	}}
}

// supervised are the jobs that have supervisors and have not ended.
func (c *Cluster) supervised() (names []string) {
	for i := range c.TrainingJobs.Items {
		if job := &c.TrainingJobs.Items[i]; job.Spec.Supervisor != nil && !over(job) {
			names = append(names, job.Namespace+"/"+job.Name)
		}
	}
	return names
}

func takesSupervisors(d *appsv1.Deployment) bool {
	address, given := argument(d, "supervisors-bind-address")
	return given && address != "0"
}

// supervisorsAddress is where supervisors connect to.
func supervisorsAddress(d *appsv1.Deployment) string {
	if address, given := argument(d, "supervisors-address"); given {
		return address
	}
	bound, _ := argument(d, "supervisors-bind-address")
	_, port, _ := net.SplitHostPort(bound)
	return net.JoinHostPort(ownHost(d), port)
}

// ownHost is the name of the Service that a manager has by default.
func ownHost(d *appsv1.Deployment) string {
	return supervisorsService + "." + leaseNamespace(d) + ".svc"
}

// serves finds why supervisors do not get to a manager that takes them.
func (c *Cluster) serves(d *appsv1.Deployment) []Finding {
	if image, _ := argument(d, "supervisor-image"); image == "" {
		return []Finding{{
			Severity: Problem, Subject: "Deployment/" + d.Namespace + "/" + d.Name,
			What: "It has the flag --supervisors-bind-address, and no image in --supervisor-image: the manager does not start.", Fix: howToServe,
		}}
	}
	found := c.Supervisions[leaseNamespace(d)]
	var out []Finding
	if host, _, err := net.SplitHostPort(supervisorsAddress(d)); err == nil && host == ownHost(d) {
		out = c.reaches(d, &found)
	}
	return append(out, c.trusted(d, &found)...)
}

// reaches finds why the Service does not lead to the leader.
func (c *Cluster) reaches(d *appsv1.Deployment, found *Supervision) []Finding {
	name := types.NamespacedName{Namespace: leaseNamespace(d), Name: supervisorsService}
	f := Finding{Severity: Problem, Subject: "Service/" + name.String(), Command: fmt.Sprintf("kubectl -n %s get service,endpointslices", name.Namespace)}
	leader := c.leaderOf(d)
	switch {
	case found.Service == nil:
		f.What = "It does not exist: no supervisor finds the manager."
		f.Fix = "Install it with the manager: it is part of the chart where supervisors.enabled=true, and of config/supervisors. Or give the manager --supervisors-address."
	case found.Service.Spec.ClusterIP != corev1.ClusterIPNone && ptr.Deref(d.Spec.Replicas, 1) > 1:
		f.Severity = Warning
		f.What = fmt.Sprintf("Its spec.clusterIP is %s. Only the leader listens, and a virtual address leads supervisors to any of %d replicas.", found.Service.Spec.ClusterIP, *d.Spec.Replicas)
		f.Fix = "Delete it, and install it again with spec.clusterIP None."
	case d.Status.AvailableReplicas == 0: // the check of the manager says so
		return nil
	case len(found.Ready) == 0:
		f.What = "No ready pod is behind it: no supervisor finds the manager."
		f.Fix = "Its spec.selector has to be the labels of the manager's pods, as in config/supervisors/server/service.yaml."
	case leader != "" && !contains(found.Ready, leader):
		f.What = fmt.Sprintf("The leader %s is not among the ready pods behind it, and only the leader listens.", leader)
		f.Fix = "See that the leader is ready, and that spec.selector has the labels of the manager's pods."
	default:
		return nil
	}
	return []Finding{f}
}

// leaderOf is the pod of a Deployment that leads; empty where none does.
func (c *Cluster) leaderOf(d *appsv1.Deployment) string {
	for i := range c.Leases.Items {
		l := &c.Leases.Items[i]
		if l.Namespace != leaseNamespace(d) || !c.held(l) {
			continue
		}
		if holder, _, _ := strings.Cut(*l.Spec.HolderIdentity, "_"); strings.HasPrefix(holder, d.Name+"-") {
			return holder
		}
	}
	return ""
}

// trusted finds why the leader has no certificate that supervisors trust. The first leader makes the authority as it begins.
func (c *Cluster) trusted(d *appsv1.Deployment, found *Supervision) []Finding {
	namespace := leaseNamespace(d)
	f := Finding{
		Severity: Problem, Subject: "Secret/" + namespace + "/" + supervisorsAuthority,
		Fix:     "See what the leader's log says of the authority: the manager may lack the Role lockstep-supervisors.",
		Command: fmt.Sprintf("kubectl -n %s logs -l app.kubernetes.io/component=manager --prefix", d.Namespace),
	}
	switch {
	case found.Hidden || !c.hasLed(namespace):
		return nil
	case found.Authority == nil:
		f.What = "It does not exist: the manager has no authority for its certificate, and the pods of new supervised jobs stay behind their gates."
		return []Finding{f}
	}
	authority, err := certificateOf(found.Authority.Data[corev1.TLSCertKey])
	switch {
	case err != nil:
		f.What = fmt.Sprintf("Its tls.crt cannot be read: %v.", err)
		f.Fix = "Restore the Secret. Or delete it to have the leader make another authority: pods without a stream at that time have to be replaced."
		f.Command = fmt.Sprintf("kubectl -n %s delete secret %s", namespace, supervisorsAuthority)
	case !c.Now.Before(authority.NotAfter):
		f.What = fmt.Sprintf("Its certificate has expired on %s, and no leader has renewed it: no supervisor connects.", authority.NotAfter.UTC().Format("2006-01-02"))
	default:
		return nil
	}
	return []Finding{f}
}

// hasLed reports whether somebody has led in a namespace for longer than it takes to look at anything.
func (c *Cluster) hasLed(namespace string) bool {
	for i := range c.Leases.Items {
		l := &c.Leases.Items[i]
		if l.Namespace == namespace && c.held(l) && (l.Spec.AcquireTime == nil || c.Now.Sub(l.Spec.AcquireTime.Time) > reactionTime) {
			return true
		}
	}
	return false
}

func certificateOf(text []byte) (*x509.Certificate, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, fmt.Errorf("no certificate in PEM")
	}
	return x509.ParseCertificate(block.Bytes)
}
