// Times within which events belong together.

package gang

import "time"

const (
	// Wake is how long after an incident began a further failure still belongs to it:
	// when one rank falls, the collective aborts and the others follow within seconds.
	Wake = 10 * time.Second
	// NodeWake is the same for failures of nodes: those of one rack are noticed one after
	// the other, up to a lease (40 s) and a look of the node controller (5 s) apart.
	NodeWake = time.Minute
	// EndReportedWithin is how long after a pod is reported as not ready its kubelet reports that it has ended: its
	// readiness probe fails before its containers are seen to have exited.
	EndReportedWithin = 5 * time.Second
	// ClocksApart is how far the clocks of Kubernetes, of its nodes and of the manager may be apart.
	ClocksApart = 5 * time.Minute
)
