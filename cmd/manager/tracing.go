package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"flag"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/sdk/resource"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"golang.org/x/time/rate"
	"google.golang.org/grpc/credentials"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/lockstep-dev/lockstep/controllers/tracing"
	"github.com/lockstep-dev/lockstep/version"
)

const (
	// complainEvery is how often the log says at most that traces are not exported.
	complainEvery = time.Minute
	// flushTimeout is how long a manager that stops waits at most until its last spans are exported.
	flushTimeout = 5 * time.Second
)

// tracingOptions are the flags about traces.
type tracingOptions struct {
	endpoint               string
	insecure               bool
	caFile                 string
	samplingRatePerMillion int
}

func (o *tracingOptions) bindFlags(flags *flag.FlagSet) {
	flags.StringVar(&o.endpoint, "tracing-endpoint", "", "host:port of an OpenTelemetry collector that gets the traces of recoveries by OTLP over gRPC; empty turns them off")
	flags.BoolVar(&o.insecure, "tracing-insecure", false, "send traces without TLS")
	flags.StringVar(&o.caFile, "tracing-ca-file", "", "file of the authorities, in PEM, that may have signed the collector's certificate; default: those of the system, of which the manager's image has none")
	flags.IntVar(&o.samplingRatePerMillion, "tracing-sampling-rate-per-million", tracing.MaxSamplingRate, "how many traces of a million are exported")
}

// validate says which flag is wrong, and what it should be.
func (o *tracingOptions) validate() error {
	if o.samplingRatePerMillion < 0 || o.samplingRatePerMillion > tracing.MaxSamplingRate {
		return fmt.Errorf("--tracing-sampling-rate-per-million=%d: set a number from 0 to %d", o.samplingRatePerMillion, tracing.MaxSamplingRate)
	}
	if o.insecure && o.caFile != "" {
		return fmt.Errorf("--tracing-insecure and --tracing-ca-file=%s: set one of them: without TLS there is no certificate to check", o.caFile)
	}
	if o.endpoint == "" {
		return nil
	}
	if host, port, err := net.SplitHostPort(o.endpoint); err != nil || host == "" || port == "" {
		return fmt.Errorf("--tracing-endpoint=%s: set the host:port of an OTLP receiver for gRPC, without a scheme, such as otel-collector.observability:4317", o.endpoint)
	}
	return nil
}

// tracer makes the tracer, which connects to the collector when it has spans to export; nil where tracing is off.
func (o *tracingOptions) tracer(ctx context.Context) (*tracing.Tracer, error) {
	if err := o.validate(); err != nil || o.endpoint == "" {
		return nil, err
	}
	security := otlptracegrpc.WithInsecure()
	if !o.insecure {
		authorities, err := o.authorities()
		if err != nil {
			return nil, err
		}
		security = otlptracegrpc.WithTLSCredentials(credentials.NewTLS(&tls.Config{RootCAs: authorities, MinVersion: tls.VersionTLS12}))
	}
	exporter, err := otlptracegrpc.New(ctx, otlptracegrpc.WithEndpoint(o.endpoint), security)
	if err != nil {
		return nil, fmt.Errorf("export traces to --tracing-endpoint=%s: %w", o.endpoint, err)
	}
	process, err := thisProcess(ctx)
	if err != nil {
		return nil, err
	}
	complainBy(ctrl.Log.WithName("tracing").WithValues("endpoint", o.endpoint))
	return tracing.New(exporter, process, o.samplingRatePerMillion, clock.RealClock{}), nil
}

// authorities are those that may have signed the collector's certificate; nil for the system's.
func (o *tracingOptions) authorities() (*x509.CertPool, error) {
	if o.caFile == "" {
		return nil, nil
	}
	pem, err := os.ReadFile(o.caFile)
	if err != nil {
		return nil, fmt.Errorf("--tracing-ca-file: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("--tracing-ca-file=%s: there is no certificate in PEM in it", o.caFile)
	}
	return pool, nil
}

// thisProcess describes the process in each trace. OTEL_RESOURCE_ATTRIBUTES and OTEL_SERVICE_NAME may say more, or otherwise.
func thisProcess(ctx context.Context) (*resource.Resource, error) {
	process, err := resource.New(ctx,
		resource.WithTelemetrySDK(),
		resource.WithHost(), // the pod's name
		resource.WithAttributes(
			semconv.ServiceName("lockstep-manager"),
			semconv.ServiceVersion(version.String()),
			semconv.ServiceInstanceID(string(uuid.NewUUID())),
		),
		resource.WithFromEnv(),
	)
	if err != nil {
		return nil, fmt.Errorf("describe this process for traces: %w", err)
	}
	return process, nil
}

// complainBy has the log say now and then why traces are not exported. Nothing else follows from it.
func complainBy(log logr.Logger) {
	now := rate.Sometimes{Interval: complainEvery}
	otel.SetLogger(log)
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		now.Do(func() { log.Error(err, "Traces are not exported; recoveries go on without them") })
	}))
}

// stopTracing exports what is left, for a moment.
func stopTracing(t *tracing.Tracer) {
	if t == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
	defer cancel()
	if err := t.Shutdown(ctx); err != nil {
		ctrl.Log.WithName("tracing").Info("The last spans were not exported", "error", err.Error())
	}
}
