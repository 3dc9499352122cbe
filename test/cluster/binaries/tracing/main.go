// Command otelcol is the OpenTelemetry Collector with what a test of traces needs: it receives spans by OTLP and appends them to a
// file. The collector's own distributions bring hundreds of other parts, which take many minutes to build.
package main

import (
	"context"
	"fmt"
	"os"
	"sync"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/provider/fileprovider"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/exporter/exporterhelper"
	"go.opentelemetry.io/collector/otelcol"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/service/telemetry"
	"go.uber.org/zap"
)

func main() {
	command := otelcol.NewCommand(otelcol.CollectorSettings{
		BuildInfo: component.NewDefaultBuildInfo(),
		Factories: factories,
		ConfigProviderSettings: otelcol.ConfigProviderSettings{ResolverSettings: confmap.ResolverSettings{
			ProviderFactories: []confmap.ProviderFactory{fileprovider.NewFactory()}, DefaultScheme: "file",
		}},
	})
	if err := command.Execute(); err != nil {
		fmt.Fprintln(os.Stderr, "otelcol:", err)
		os.Exit(1)
	}
}

func factories() (otelcol.Factories, error) {
	receivers, err := otelcol.MakeFactoryMap[receiver.Factory](otlpreceiver.NewFactory())
	if err != nil {
		return otelcol.Factories{}, err
	}
	exporters, err := otelcol.MakeFactoryMap[exporter.Factory](fileExporter())
	if err != nil {
		return otelcol.Factories{}, err
	}
	return otelcol.Factories{
		Receivers: receivers, Exporters: exporters,
		Telemetry: telemetry.NewFactory(func() component.Config { return &struct{}{} }, telemetry.WithCreateLogger(createLogger)),
	}, nil
}

// createLogger logs to stderr. The collector's usual telemetry, which it traces and measures itself by, is left out.
func createLogger(context.Context, telemetry.LoggerSettings, component.Config) (*zap.Logger, component.ShutdownFunc, error) {
	logger, err := zap.NewProduction()
	return logger, nil, err
}

// fileConfig is the configuration of the exporter "file".
type fileConfig struct {
	Path string `mapstructure:"path"`
}

// fileExporter appends what it is given to a file: each batch is a line of OTLP's JSON, as the collector's contributed exporter of the
// same name has it.
func fileExporter() exporter.Factory {
	create := func(ctx context.Context, set exporter.Settings, config component.Config) (exporter.Traces, error) {
		file, err := os.OpenFile(config.(*fileConfig).Path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return nil, err
		}
		var mu sync.Mutex
		appendLine := func(_ context.Context, traces ptrace.Traces) error {
			line, err := (&ptrace.JSONMarshaler{}).MarshalTraces(traces)
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			_, err = file.Write(append(line, '\n'))
			return err
		}
		return exporterhelper.NewTraces(ctx, set, config, appendLine,
			exporterhelper.WithShutdown(func(context.Context) error { return file.Close() }))
	}
	return exporter.NewFactory(component.MustNewType("file"), func() component.Config { return &fileConfig{} },
		exporter.WithTraces(create, component.StabilityLevelStable))
}
