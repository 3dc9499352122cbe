// Package cluster runs a real Kubernetes control plane with Volcano in processes of its own, built
// from Go modules: no container registry, no downloaded binaries. Nodes are played by KWOK, so a
// thousand of them fit on a small machine; everything else is what a real cluster runs: etcd, the
// API server, the controller manager, Volcano's scheduler, controllers and admission webhooks.
//
//	c, err := cluster.Start(ctx, cluster.Options{})
//	defer c.Stop()
//	err = c.AddTopology(ctx, cluster.Topology{Name: "a", Racks: 3, NodesPerRack: 6, GPUsPerNode: 8})
//
// Topologies are pools of nodes that do not share anything, so that tests can run side by side in
// one cluster. Verbs such as FailPod, RestartContainers and StopHeartbeat do to pods and nodes what
// real failures do, by writing what a kubelet writes or by silencing it.
//
// Nothing stays behind: the processes end with Stop, or with the process that started them, even
// when that is killed.
package cluster
