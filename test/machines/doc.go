// Package machines makes Linux machines out of namespaces, on which kubelets run side by side on one
// host. A machine has its own processes, mounts, network, hostname and cgroups. Its root filesystem
// is the host's, with an overlay that keeps every change to the machine; its network is a veth to a
// router, as a rack's machines have.
//
// The package prepares what a machine needs and knows how to cut, freeze and inspect one. It starts
// no machine: the caller runs the program of the folder init in the namespaces that Namespaces names.
// When that process dies, the kernel ends all processes of the machine and frees its mounts and its
// network. A janitor process removes the rest, the cgroups and the folders, however the caller ends.
//
// It needs Linux and root, and cgroup v2 or v1; Check says what is missing.
package machines
