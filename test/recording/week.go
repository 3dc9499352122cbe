package main

// counted are failures that a user has counted.
const counted = `source: our own log of last quarter
nodes: 18
days: 90
causes:
- {name: node hangs, failures: 20, effect: NodeLoss, repair: 4h}
- {name: GPU falls off the bus, failures: 5, effect: DeviceFailure, repair: 24h}
`

// week is recorded for the page of the first week. Lines are no longer than a page of GitHub's shows.
var week = []part{
	{"install", []string{
		"# helm package charts/lockstep --destination bin 2>/dev/null",                          // as `make chart` does
		"# sed '/^monitoring:/d' config/samples/values-dcgm-socket.yaml > lockstep-values.yaml", // the cluster has no Prometheus operator
		"helm install lockstep bin/lockstep-*.tgz --namespace lockstep-system --create-namespace \\\n" +
			"    --values lockstep-values.yaml",
	}},
	{"job", []string{
		"# kubectl cordon demo-r2-n5", // Day 3 deletes a node of the job, and Day 5 needs this one
		"kubectl apply -f config/samples/claim.yaml",
		"# kubectl wait pvc/checkpoints --for=jsonpath={.status.phase}=Bound --timeout=10m",
		"kubectl lockstep submit llama --framework pytorch --workers 4 --gpus 8 \\\n" +
			"    --image registry.example/llama:1 --tier 2 --mount checkpoints:/ckpt -- \\\n" +
			"    torchrun --nnodes='$(WORLD_SIZE)' --nproc_per_node=8 --node_rank='$(RANK)' \\\n" +
			"    --master_addr='$(MASTER_ADDR)' --master_port='$(MASTER_PORT)' train.py",
		"# kubectl wait tj/llama --for=condition=Running --timeout=10m",
		"kubectl lockstep list",
		"kubectl lockstep describe llama",
	}},
	{"failure", []string{
		"# sleep 20",
		"kubectl delete node $(kubectl get pod llama-1-worker-1 -o jsonpath={.spec.nodeName})",
		"# kubectl wait tj/llama --for=jsonpath={.status.incidents[0].outcome}=Recovered --timeout=10m",
		"kubectl lockstep top llama --once",
		"kubectl lockstep why llama worker-1",
	}},
	{"policy", []string{
		"kubectl get tj llama -o yaml > llama.yaml",
		"cat counted.yaml",
		"kubectl lockstep simulate -f llama.yaml --failures counted.yaml --nodes 18 --for 365d \\\n" +
			"    --sweep unreachableNode.gangDownAfterSeconds=5s..60s",
	}},
	{"alert", []string{
		"grep -A8 LockstepNodesQuarantined config/prometheus/lockstep.yaml",
		"# kubectl uncordon demo-r2-n5",
		"# " + ill,
		"# timeout 600 sh -c 'until kubectl get healthpolicy cluster -o jsonpath={.status.quarantined} | grep -q 1; do sleep 1; done'",
		"# kubectl wait tj/llama --for=jsonpath={.status.state}=Running --timeout=10m",
		"kubectl get healthpolicies",
		"kubectl lockstep nodes --unhealthy",
		"# kubectl lockstep timeline llama",
		"kubectl lockstep ack node demo-r2-n5",
	}},
}

// ill has the health agent of a node report that a GPU has fallen off the bus.
const ill = `kubectl create -f - <<'END' && \
kubectl patch nodehealth demo-r2-n5 --subresource status --type merge -p "$(date -u +'{"status": {
"sources": [{"name": "dcgm", "state": "Healthy", "heartbeatTime": "%FT%TZ"}],
"reports": [{"source": "dcgm", "entity": "gpu/GPU-a", "signal": "XID79", "state": "Failed", "since": "%FT%TZ",
"message": "the GPU has fallen off the bus"}]}}')"
apiVersion: lockstep.dev/v1alpha1
kind: NodeHealth
metadata: {name: demo-r2-n5}
END`
