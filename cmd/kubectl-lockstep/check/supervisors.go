// Whether the supervisors of jobs find the manager, and can trust it.

package check

import (
	"cmp"
	"fmt"
	"net"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/lines"
)

// Names of what the supervisors need in a manager's namespace (controllers/supervisors): the Service that they find it by, unless it is
// given another address, and the Secret of the authority of its certificate.
const (
	supervisorsService   = "lockstep-supervisors"
	supervisorsAuthority = "lockstep-supervisor-ca"
)

// howToServe says how a manager is made to take supervisors.
const howToServe = "Set supervisors.enabled=true and supervisors.image.repository in the chart's values, or run " +
	"`make install CONFIG=config/supervisors` with SUPERVISOR_IMG. docs/operators.md says more."

// supervision looks at each manager that takes supervisors, and for one where jobs need it.
func supervision(c *Cluster, r *Result) {
	var jobs, addresses []string
	for i := range c.TrainingJobs.Items {
		if job := &c.TrainingJobs.Items[i]; job.Spec.Supervisor != nil && !over(job) {
			jobs = append(jobs, full(job))
		}
	}
	managers := c.managers()
	for _, d := range managers {
		if d.takesSupervisors() {
			addresses = append(addresses, d.supervisorsAddress())
			r.serves(c, &d)
		}
	}
	needing := lines.Count(len(jobs), "TrainingJob")
	switch {
	case len(addresses) > 0:
		slices.Sort(addresses)
		r.Saw = strings.Join(slices.Compact(addresses), ", ") + " for " + needing
	case len(managers) == 0:
		r.Saw = "elsewhere: no Deployment says whether the manager takes them"
	case len(jobs) == 0:
		r.Saw = "off"
	default:
		r.Saw = "off, for " + needing
		r.problem("Deployment/"+full(managers[0]),
			"Its flag --supervisors-bind-address is not set, so that it takes no supervisors, and spec.supervisor is in "+needing+": "+some(jobs)+
				". They do not start, or not again.",
			howToServe+" Or create the jobs without spec.supervisor.")
	}
}

func (d *deployed) takesSupervisors() bool {
	return cmp.Or(d.flags["supervisors-bind-address"], "0") != "0"
}

// atHome is the full name of an object in the namespace of the manager's lease.
func (d *deployed) atHome(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: d.home, Name: name}
}

// supervisorsAddress is where supervisors connect to.
func (d *deployed) supervisorsAddress() string {
	_, port, _ := net.SplitHostPort(d.flags["supervisors-bind-address"])
	return cmp.Or(d.flags["supervisors-address"], net.JoinHostPort(supervisorsService+"."+d.home+".svc", port))
}

// serves finds why supervisors do not get to a manager that takes them, or do not trust it.
func (r *Result) serves(c *Cluster, d *deployed) {
	if d.flags["supervisor-image"] == "" {
		r.problem("Deployment/"+full(d),
			"It has the flag --supervisors-bind-address, and no image in --supervisor-image: the manager does not start.", howToServe)
		return
	}
	if host, _, err := net.SplitHostPort(d.supervisorsAddress()); err == nil && host == supervisorsService+"."+d.home+".svc" {
		r.reaches(d, c.Backends[d.atHome(supervisorsService)])
	}
	if c.NoAuthority[d.home] && d.leader.name != "" && c.Now.Sub(d.leader.since) > reactionTime { // the first leader makes it as it begins
		r.problem("Secret/"+d.atHome(supervisorsAuthority).String(),
			"It does not exist: the manager has no authority for its certificate, and the pods of new supervised jobs stay behind their gates.",
			"See what the leader's log says of the authority: the manager may lack the Role lockstep-supervisors.",
			"kubectl -n "+d.Namespace+" logs -l app.kubernetes.io/component=manager --prefix")
	}
}

// reaches finds why the Service does not lead to the leader.
func (r *Result) reaches(d *deployed, b Backend) {
	subject, command := "Service/"+d.atHome(supervisorsService).String(), "kubectl -n "+d.home+" get service,endpointslices"
	switch replicas := ptr.Deref(d.Spec.Replicas, 1); {
	case b.Service == nil:
		r.problem(subject, "It does not exist: no supervisor finds the manager.",
			"Install it with supervisors.enabled=true of the chart, or from config/supervisors. Or give the manager --supervisors-address.", command)
	case b.Service.Spec.ClusterIP != corev1.ClusterIPNone && replicas > 1:
		r.warning(subject, fmt.Sprintf(
			"Its spec.clusterIP is %s. Only the leader listens, and a virtual address leads supervisors to any of %d replicas.",
			b.Service.Spec.ClusterIP, replicas), "Delete it, and install it again with spec.clusterIP None.", command)
	case d.Status.AvailableReplicas == 0: // the check of the manager says so
	case len(b.Ready) == 0:
		r.problem(subject, "No ready pod is behind it: no supervisor finds the manager.",
			"Its spec.selector has to be the labels of the manager's pods, as in config/supervisors/server/service.yaml.", command)
	case d.leads() && !slices.Contains(b.Ready, d.leader.name):
		r.problem(subject, "The leader "+d.leader.name+" is not among the ready pods behind it, and only the leader listens.",
			"See that the leader is ready, and that spec.selector has the labels of the manager's pods.", command)
	}
}
