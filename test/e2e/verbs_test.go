// The verbs of kubectl lockstep that list, create, suspend and acknowledge, with the rights that their users have.

package e2e

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/test/cluster"
)

// says runs kubectl lockstep, and checks that it prints all of these.
func (s *scenario) says(kubeconfig string, args []string, wants ...string) {
	s.t.Helper()
	out, err := s.lockstepWith(kubeconfig, append([]string{"-n", namespace}, args...)...)
	s.must(err, fmt.Sprintf("%v: %s", args, out))
	s.hasAll(args, out, wants)
}

// refuses does the same with a command that fails.
func (s *scenario) refuses(kubeconfig string, args []string, wants ...string) {
	s.t.Helper()
	out, err := s.lockstepWith(kubeconfig, append([]string{"-n", namespace}, args...)...)
	if err == nil {
		s.t.Errorf("%v does not fail: %s", args, out)
	}
	s.hasAll(args, out, wants)
}

func (s *scenario) hasAll(args []string, out string, wants []string) {
	s.t.Helper()
	text := strings.Join(strings.Fields(out), " ")
	for _, want := range wants {
		if !strings.Contains(text, want) {
			s.t.Errorf("%v: no %q in\n%s", args, want, out)
		}
	}
}

// userWith makes a user with a ClusterRole, and returns its kubeconfig. The roles of config/rbac/users.yaml are there meanwhile.
func (s *scenario) userWith(role string) string {
	s.t.Helper()
	root, err := cluster.RepositoryRoot()
	s.must(err, "find the repository")
	raw, err := os.ReadFile(filepath.Join(root, "config", "rbac", "users.yaml"))
	s.must(err, "read the roles of users")
	user := s.pool.Name + "-" + role
	objects := []client.Object{&rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: user}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	}}
	for doc := range bytes.SplitSeq(raw, []byte("\n---\n")) {
		r := &rbacv1.ClusterRole{}
		s.must(yaml.Unmarshal(doc, r), "parse a role")
		objects = append(objects, r)
	}
	for _, o := range objects {
		s.must(testCluster.Client().Create(s.ctx, o), "create a role")
		s.t.Cleanup(func() { s.must(testCluster.Client().Delete(s.ctx, o), "delete a role") })
	}
	for _, o := range objects {
		if r, ok := o.(*rbacv1.ClusterRole); ok && r.Name == role {
			s.awaitRight(user, r.Rules[0])
		}
	}
	kubeconfig, err := testCluster.KubeconfigFor(user)
	s.must(err, "make a kubeconfig")
	return kubeconfig
}

// awaitRight waits until the API server knows of a right that a user was given: it looks at roles and bindings a moment later.
func (s *scenario) awaitRight(user string, given rbacv1.PolicyRule) {
	s.t.Helper()
	s.awaitAny("user "+user+" has its rights", func(ctx ctxT) (bool, error) {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: user, ResourceAttributes: &authorizationv1.ResourceAttributes{
				Namespace: namespace, Group: given.APIGroups[0], Resource: given.Resources[0], Verb: given.Verbs[0],
			},
		}}
		err := testCluster.Client().Create(ctx, review)
		return review.Status.Allowed, err
	})
}

// No other test may run beside: a job that is submitted may use the nodes of all.
func TestAJobFromSubmitToResume(t *testing.T) {
	s := newScenarioAlone(t, "submitted", 1, 4)
	user := s.userWith("edit") // to which Lockstep's roles are aggregated, by and by
	submit := func(args ...string) []string {
		flags := []string{"submit", "submitted", "--framework", "pytorch", "--workers", "3", "--gpus", "8", "--image", "trainer", "--tier", "1"}
		return slices.Concat(flags, args)
	}
	s.awaitAny("the user has the rights", func(ctxT) (bool, error) {
		_, err := s.lockstepWith(user, "list", "-n", namespace)
		return err == nil, nil
	})
	s.says(user, submit("--dry-run=server"), "trainingjob.lockstep.dev/submitted created (server dry run)")
	s.says(user, submit(), "trainingjob.lockstep.dev/submitted created", "why submitted what it waits for")
	s.refuses(user, submit(), "already exists in namespace default: give another name")
	s.job = &v1alpha1.TrainingJob{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "submitted"}}
	s.await("the job runs", func() bool { return s.job.Status.State == v1alpha1.StateRunning })
	if n := len(s.pods()); n != 3 {
		t.Errorf("there are %d pods", n)
	}
	s.refuses(user, []string{"list", "-n", "nope"}, "namespace nope does not exist")
	s.says(user, []string{"list"}, "NAME STATE READY ATTEMPT HYPERNODE RESTARTS ETTR AGE", "submitted Running 3/3 1 "+s.pool.Rack(0)+" 0 1.0000")
	s.says(user, []string{"ls", "-A", "--state", "Running"}, "default submitted Running")
	s.says(testCluster.Kubeconfig(), []string{"nodes", s.pool.Rack(0)}, s.pool.Rack(0)+" "+s.pod(0).Spec.NodeName+" yes - - - 8/8")

	s.says(user, []string{"restart", "submitted", "--task", "worker", "--dry-run=server"}, "RestartTask of task worker requested (server dry run)")
	s.says(user, []string{"restart", "submitted", "worker-0", "--wait"}, "Recovered after")
	s.says(user, []string{"suspend", "submitted", "--dry-run=server"}, "submitted suspended (server dry run)")
	s.says(user, []string{"suspend", "submitted"}, "submitted suspended", "kubectl lockstep resume starts it again")
	s.says(user, []string{"suspend", "submitted"}, "submitted is suspended already")
	s.await("the job is suspended", func() bool { return s.job.Status.State == v1alpha1.StateSuspended && len(s.pods()) == 0 })
	s.refuses(user, []string{"logs", "submitted"}, "TrainingJob submitted has no pods")
	s.says(user, []string{"resume", "submitted"}, "submitted resumed")
	s.await("the job runs again", func() bool { return s.job.Status.State == v1alpha1.StateRunning })
	s.says(user, []string{"resume", "submitted"}, "submitted is not suspended")
	if n := s.job.Status.Restarts.Job; n != 0 {
		t.Errorf("to resume the job is counted as %d restarts", n)
	}

	s.refuses(user, []string{"logs", "submitted", "worker-7"}, `"worker-7" names no rank of TrainingJob submitted: give one of master-0, worker-0 to worker-1`)
	s.refuses(user, []string{"logs", "submitted", "worker-0", "-p"}, "logs go with their pods")
	s.must(testCluster.SucceedPods(s.ctx, s.keys()...), "let the pods succeed")
	s.await("the job completes", func() bool { return s.job.Status.State == v1alpha1.StateCompleted })
	s.refuses(user, []string{"suspend", "submitted"}, "TrainingJob submitted has ended (Completed), and cannot be suspended")
	s.says(user, []string{"ack", "breaker"}, "no breaker is open, and nothing is left to acknowledge")
}

// The launcher is a task of its own, as Volcano's plugin is told.
func TestAJobOfMPIIsSubmitted(t *testing.T) {
	s := newScenarioAlone(t, "mpi", 1, 3)
	s.says(testCluster.Kubeconfig(), []string{
		"submit", "mpi", "--framework", "mpi", "--workers", "2", "--spares", "1", "--gpus", "8", "--image", "trainer", "--mount", "data:/data", "--dry-run=server", "--", "mpirun", "train",
	}, "trainingjob.lockstep.dev/mpi created (server dry run)")
	s.says(testCluster.Kubeconfig(), []string{
		"submit", "mpi", "--framework", "mpi", "--workers", "2", "--spares", "1", "--gpus", "8", "--image", "trainer", "--env", "A=b", "--", "mpirun", "train",
	}, "trainingjob.lockstep.dev/mpi created")
	s.job = &v1alpha1.TrainingJob{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "mpi"}}
	s.await("the job runs", func() bool { return s.job.Status.State == v1alpha1.StateRunning && s.job.Status.Ready == "3/3" })
	launcher, ok := s.pods()["mpi-1-launcher-0"]
	if !ok {
		t.Fatalf("no launcher among %v", slices.Collect(maps.Keys(s.pods())))
	}
	c := &launcher.Spec.Containers[0]
	if _, gpus := c.Resources.Limits[gpuResource]; gpus || !slices.Equal(c.Command, []string{"mpirun", "train"}) {
		t.Errorf("the launcher has GPUs: %v; it runs %v", gpus, c.Command)
	}
	if !slices.ContainsFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == "MPI_HOST" && strings.Contains(e.Value, "mpi-1-worker-1") }) {
		t.Errorf("the launcher is not told of the workers: %v", c.Env)
	}
}

// No other test may run beside: an acknowledgement of the breaker is for the whole cluster.
func TestFaultsAndTheBreakerAreAcknowledged(t *testing.T) {
	s := newScenarioAlone(t, "acked", 1, 6)
	user := s.userWith("lockstep-health-admin")
	ill := v1alpha1.NodeHealthStatus{
		Sources: []v1alpha1.HealthSource{{Name: "dcgm", State: v1alpha1.HealthHealthy}},
		Reports: []v1alpha1.HealthReport{fault(v1alpha1.HealthStateFailed)},
	}
	nodes := s.pool.RackNodes(0)
	for _, node := range nodes[:3] { // the limit of a HyperNode of six is two
		s.reported(node, ill)
	}
	s.awaitAny("the breaker holds a node back", func(ctx ctxT) (bool, error) {
		p := &v1alpha1.HealthPolicy{}
		err := testCluster.Client().Get(ctx, client.ObjectKey{Name: v1alpha1.HealthPolicyName}, p)
		return err == nil && len(p.Status.Breakers) == 1 && len(s.quarantined()) == 2, err
	})
	s.says(testCluster.Kubeconfig(), []string{"nodes", "--unhealthy"}, "yes Failed", "held back 0/8", "NVLinkDown of nvlink/GPU-0/3 (Failed,")
	s.says(user, []string{"ack", "breaker", "--dry-run=server"}, "the breaker of HyperNode "+s.pool.HyperNode(1, 0)+" holds back 1 (", "since more than 2 fell ill", "(server dry run)")
	s.says(user, []string{"ack", "breaker"}, "healthpolicy.lockstep.dev/cluster acknowledged: faults up to")
	s.awaitAny("all three are in quarantine", func(ctxT) (bool, error) { return len(s.quarantined()) == 3, nil })

	node := nodes[0]
	s.says(user, []string{"ack", "node", node}, "Node "+node+" is in quarantine since", "because it is Failed", "reports NVLinkDown of nvlink/GPU-0/3, Failed since", "nodehealth.lockstep.dev/"+node+" acknowledged: faults up to")
	s.published(node, "the manager forgets that it failed", func(h v1alpha1.NodeHealthStatus) bool { return h.Verdict != nil && len(h.Verdict.FailureTimes) == 0 })
	s.says(user, []string{"ack", "node", node}, "nothing is left to acknowledge")
	s.refuses(user, []string{"ack", "node", "nowhere"}, `nodehealths.lockstep.dev "nowhere" not found: nothing was ever reported`)
	s.refuses(user, []string{"timeline", "nowhere"}, "The ClusterRole lockstep-explain has all rights")
}
