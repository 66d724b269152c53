package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

type guarded struct {
	*bench
	authority []byte
	port      int
	stop      context.CancelFunc
	folder    string
}

// A webhook server of controller-runtime that the API server asks.
func webhookChecks(b *bench) []check {
	g := &guarded{bench: b}
	return []check{
		{"a webhook server of controller-runtime is asked over TLS", g.serve},
		{"it fills in what was left out", g.mutates},
		{"it refuses, and its words arrive", g.refuses},
		{"it is told who asks, what was before, and of dry runs", g.told},
		{"where it is gone, its failure policy decides", g.gone},
	}
}

func (g *guarded) serve(ctx context.Context) error {
	var err error
	if g.folder, err = os.MkdirTemp("", "go-webhooks-"); err != nil {
		return err
	}
	if err := g.certify(); err != nil {
		return err
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	g.port = free.Addr().(*net.TCPAddr).Port
	if err := free.Close(); err != nil {
		return err
	}
	server := webhook.NewServer(webhook.Options{Host: "127.0.0.1", Port: g.port, CertDir: g.folder})
	decoder := admission.NewDecoder(scheme.Scheme)
	server.Register("/mutate", &webhook.Admission{Handler: admission.HandlerFunc(
		func(_ context.Context, request admission.Request) admission.Response {
			var seen corev1.ConfigMap
			if err := decoder.Decode(request, &seen); err != nil {
				return admission.Errored(http.StatusBadRequest, err)
			}
			if seen.Data == nil {
				seen.Data = map[string]string{}
			}
			if seen.Data["color"] == "" {
				seen.Data["color"] = "grey"
			}
			raw, err := json.Marshal(&seen)
			if err != nil {
				return admission.Errored(http.StatusInternalServerError, err)
			}
			return admission.PatchResponseFromRaw(request.Object.Raw, raw)
		})})
	server.Register("/validate", &webhook.Admission{Handler: admission.HandlerFunc(
		func(_ context.Context, request admission.Request) admission.Response {
			var seen, before corev1.ConfigMap
			if err := decoder.Decode(request, &seen); err != nil {
				return admission.Errored(http.StatusBadRequest, err)
			}
			if len(request.OldObject.Raw) > 0 {
				if err := decoder.DecodeRaw(request.OldObject, &before); err != nil {
					return admission.Errored(http.StatusBadRequest, err)
				}
			}
			if seen.Data["color"] == "red" {
				return admission.Denied(fmt.Sprintf(
					"%s %s/%s by %s: red after %q, dry run %t", request.Operation, request.Namespace, request.Name,
					request.UserInfo.Username, before.Data["color"], ptr.Deref(request.DryRun, false)))
			}
			return admission.Allowed("").WithWarnings("seen by a webhook")
		})})
	serving, stop := context.WithCancel(ctx)
	g.stop = stop
	go func() { _ = server.Start(serving) }()
	err = eventually(ctx, "the webhook server listens", func(context.Context) (bool, error) {
		return server.StartedChecker()(nil) == nil, nil
	})
	return first(err, g.register(ctx))
}

// A certificate for this machine, signed by itself.
func (g *guarded) certify() error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "go-webhooks"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return err
	}
	secret, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	g.authority = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	private := pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: secret})
	return first(
		os.WriteFile(filepath.Join(g.folder, "tls.crt"), g.authority, 0o600),
		os.WriteFile(filepath.Join(g.folder, "tls.key"), private, 0o600),
	)
}

func (g *guarded) register(ctx context.Context) error {
	here := &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": g.namespace}}
	rules := []admissionv1.RuleWithOperations{{
		Operations: []admissionv1.OperationType{admissionv1.Create, admissionv1.Update},
		Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
	}}
	at := func(path string) admissionv1.WebhookClientConfig {
		url := fmt.Sprintf("https://127.0.0.1:%d%s", g.port, path)
		return admissionv1.WebhookClientConfig{URL: &url, CABundle: g.authority}
	}
	registry := g.kube.AdmissionregistrationV1()
	_, err := registry.MutatingWebhookConfigurations().Create(ctx, &admissionv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: g.namespace},
		Webhooks: []admissionv1.MutatingWebhook{{
			Name: "mutate.example.com", ClientConfig: at("/mutate"), Rules: rules, NamespaceSelector: here,
			SideEffects: ptr.To(admissionv1.SideEffectClassNone), AdmissionReviewVersions: []string{"v1"},
			FailurePolicy: ptr.To(admissionv1.Ignore),
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	_, err = registry.ValidatingWebhookConfigurations().Create(ctx, &admissionv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: g.namespace},
		Webhooks: []admissionv1.ValidatingWebhook{{
			Name: "validate.example.com", ClientConfig: at("/validate"), Rules: rules, NamespaceSelector: here,
			SideEffects: ptr.To(admissionv1.SideEffectClassNone), AdmissionReviewVersions: []string{"v1"},
			FailurePolicy: ptr.To(admissionv1.Fail), TimeoutSeconds: ptr.To(int32(5)),
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	// A server may take a moment to hear of it.
	return eventually(ctx, "the webhooks are asked", func(ctx context.Context) (bool, error) {
		made, err := g.create(ctx, "probe", "", metav1.DryRunAll)
		return err == nil && made.Data["color"] == "grey", err
	})
}

func (g *guarded) create(ctx context.Context, name, color string, dry ...string) (*corev1.ConfigMap, error) {
	made := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if color != "" {
		made.Data = map[string]string{"color": color}
	}
	return g.kube.CoreV1().ConfigMaps(g.namespace).Create(ctx, made, metav1.CreateOptions{DryRun: dry})
}

func (g *guarded) mutates(ctx context.Context) error {
	if _, err := g.create(ctx, "one", ""); err != nil {
		return err
	}
	found, err := g.kube.CoreV1().ConfigMaps(g.namespace).Get(ctx, "one", metav1.GetOptions{})
	return first(err, expect(err != nil || found.Data["color"] == "grey", "got %v", found.Data))
}

func (g *guarded) refuses(ctx context.Context) error {
	_, err := g.create(ctx, "two", "red")
	said := `admission webhook "validate.example.com" denied the request: CREATE go-webhooks/two by `
	return first(
		expect(apierrors.IsForbidden(err), "got %v", err),
		expect(strings.HasPrefix(err.Error(), said), "said %v", err),
	)
}

func (g *guarded) told(ctx context.Context) error {
	patch := []byte(`{"data":{"color":"red"}}`)
	options := metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}
	_, err := g.kube.CoreV1().ConfigMaps(g.namespace).Patch(ctx, "one", "application/merge-patch+json", patch, options)
	said := `red after "grey", dry run true`
	return expect(err != nil && strings.HasSuffix(err.Error(), said), "said %v", err)
}

func (g *guarded) gone(ctx context.Context) error {
	g.stop()
	defer os.RemoveAll(g.folder)
	err := eventually(ctx, "the webhook is missed", func(ctx context.Context) (bool, error) {
		_, err := g.create(ctx, "three", "", metav1.DryRunAll)
		said := `failed calling webhook "validate.example.com"`
		return apierrors.IsInternalError(err) && strings.Contains(err.Error(), said), nil
	})
	if err != nil {
		return err
	}
	registry := g.kube.AdmissionregistrationV1()
	err = first(
		registry.ValidatingWebhookConfigurations().Delete(ctx, g.namespace, metav1.DeleteOptions{}),
		eventually(ctx, "the other webhook's failure is ignored", func(ctx context.Context) (bool, error) {
			made, err := g.create(ctx, "four", "", metav1.DryRunAll)
			return err == nil && made.Data["color"] == "", nil
		}),
	)
	return first(err, registry.MutatingWebhookConfigurations().Delete(ctx, g.namespace, metav1.DeleteOptions{}))
}
