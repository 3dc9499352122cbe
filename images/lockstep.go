package images

// Manager is the manager's program: from scratch, as a user that is not root.
func Manager(root string) Program {
	return Program{Root: root, Package: "./cmd/manager", Image: Image{
		User: "65532:65532",
		Labels: map[string]string{
			"org.opencontainers.image.title":       "lockstep-manager",
			"org.opencontainers.image.description": "Lockstep's controllers",
			"org.opencontainers.image.licenses":    "Apache-2.0",
		},
	}}
}

// Supervisor is lockstep-run, which pods with a supervisor copy from its image: from scratch, as a user that is not root.
func Supervisor(root string) Program {
	return Program{Root: root, Package: "./cmd/lockstep-run", Image: Image{
		User: "65532:65532",
		Labels: map[string]string{
			"org.opencontainers.image.title":       "lockstep-run",
			"org.opencontainers.image.description": "Lockstep's supervisor of training programs",
			"org.opencontainers.image.licenses":    "Apache-2.0",
		},
	}}
}
