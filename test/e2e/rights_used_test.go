// Which of the rights that are granted were used: the API server's audit log has each request of the manager, of the drainer and of the agents.

package e2e

import (
	"flag"
	"fmt"
	"slices"
	"strings"

	"github.com/lockstep-dev/lockstep/test/operator"
)

// rightsOf are the accounts that the tests look at.
var rightsOf = []string{operator.User, operator.DrainerUser, agentUser}

const agentUser = "system:serviceaccount:" + agentNamespace + ":" + agentName

// unusedRights are those that no request of these tests uses, and why they are granted. Those for Kueue are used in test/kueue.
var unusedRights = map[string]string{
	"update batch.volcano.sh jobs/finalizers":     "OwnerReferencesPermissionEnforcement, an admission plugin that clusters may run, asks for it: Commands are owned by the Job",
	"update lockstep.dev trainingjobs/finalizers": "the same: Volcano Jobs are owned by their TrainingJob",
	"create lockstep.dev nodehealths":             "a server-side apply of an object that does not exist is a patch, for which the API server asks for the right to create; and the manager makes one for a node of which only other tools say something",
	"delete lockstep.dev nodehealths":             "the manager forgets a node that has been gone for a day",
	"create lockstep.dev healthpolicies":          "the manager makes the one with the defaults where there is none; here, there is one from the beginning",
	"get lockstep.dev healthpolicies":             "the same, where another manager was faster",
	"patch events.k8s.io events":                  "an event that repeats within minutes becomes a series: whether one does here is a matter of time",
	"get persistentvolumeclaims":                  "the manager looks at the volumes of a pod before it binds it; the pods here have none",
	"get persistentvolumes":                       "the same",
	"create coordination.k8s.io leases":           ofLeaders,
	"get coordination.k8s.io leases":              ofLeaders,
	"update coordination.k8s.io leases":           ofLeaders,
	"patch coordination.k8s.io leases":            ofLeaders,
	"create events":                               ofLeaders,
	"patch events":                                ofLeaders,
	"update secrets":                              "the manager renews the authority of the supervisors' certificates after years",
}

const ofLeaders = "managers elect a leader, and say in events who it is; the one here is alone"

// checkRights compares the rights that were granted with those that were used, where all tests have run.
func checkRights(log string) error {
	if f := flag.Lookup("test.run"); f != nil && f.Value.String() != "" {
		return nil
	}
	used, err := operator.UsedRights(log, rightsOf...)
	if err != nil {
		return err
	}
	var unused []string
	for user := range used {
		granted, err := operator.Rights(user)
		if err != nil {
			return err
		}
		for _, right := range granted {
			if !used[user][right] && unusedRights[right] == "" && !operator.IsForKueue(right) {
				unused = append(unused, user+": "+right)
			}
		}
	}
	if len(unused) > 0 {
		slices.Sort(unused)
		return fmt.Errorf("rights that nobody used:\n%s", strings.Join(unused, "\n"))
	}
	return nil
}
