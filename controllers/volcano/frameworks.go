// Frameworks: one field of the TrainingJob, Volcano's job plugins underneath.

package volcano

import (
	"strconv"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// noNetworkPolicy keeps Volcano's svc plugin, which every framework needs, from
// cutting the job's pods off from all others, monitoring among them.
const noNetworkPolicy = "--disable-network-policy=true"

// publishNotReady has DNS know every pod of the job, also those that are not ready. Ranks
// find each other by name before they are ready: where a readiness probe waits for the
// gang, nobody would ever find anybody.
const publishNotReady = "--publish-not-ready-addresses=true"

// plugins are Volcano's job plugins for a framework. A plugin's own default
// stands where the user gives none.
func plugins(f *v1alpha1.Framework) map[string][]string {
	if f == nil {
		return nil
	}
	out := map[string][]string{"svc": {noNetworkPolicy, publishNotReady}}
	switch {
	case f.PyTorch != nil:
		out["pytorch"] = args("master", f.PyTorch.Master, "worker", f.PyTorch.Worker, "port", number(f.PyTorch.Port))
	case f.MPI != nil:
		out["ssh"] = []string{}
		out["mpi"] = args("master", f.MPI.Launcher, "worker", f.MPI.Worker, "port", number(f.MPI.Port))
	case f.TensorFlow != nil:
		t := f.TensorFlow
		out["tensorflow"] = args("ps", t.PS, "worker", t.Worker, "chief", t.Chief, "evaluator", t.Evaluator, "port", number(t.Port))
	case f.Ray != nil:
		out["ray"] = args("head", f.Ray.Head, "worker", f.Ray.Worker, "port", number(f.Ray.Port))
	default:
		return nil
	}
	return out
}

// args makes flags of names and values, leaving out those without a value.
func args(namesAndValues ...string) []string {
	out := []string{}
	for i := 0; i+1 < len(namesAndValues); i += 2 {
		if v := namesAndValues[i+1]; v != "" {
			out = append(out, "--"+namesAndValues[i]+"="+v)
		}
	}
	return out
}

func number(n *int32) string {
	if n == nil {
		return ""
	}
	return strconv.Itoa(int(*n))
}
