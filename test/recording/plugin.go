package main

// counted are failures that a user has counted.
const counted = `source: our own log of last quarter
nodes: 18
days: 90
causes:
- {name: node hangs, failures: 20, effect: NodeLoss, repair: 4h}
- {name: GPU falls off the bus, failures: 5, effect: DeviceFailure, repair: 24h}
`

// session is recorded for the page of the plugin.
var session = []string{
	"kubectl apply -f config/samples/quickstart.yaml",
	"kubectl wait tj/llama --for=condition=Running --timeout=2m",
	"kubectl get tj",
	"# sleep 30",
	"kubectl delete node $(kubectl get pod llama-1-worker-1 -o jsonpath={.spec.nodeName})",
	"# kubectl wait tj/llama --for=jsonpath={.status.incidents[0].outcome}=Recovered --timeout=2m",
	"kubectl lockstep timeline llama",
}
