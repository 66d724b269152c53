package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
)

type answers struct{ *bench }

// What suites of others tripped over: answers that a client reads without saying so.
func answerChecks(b *bench) []check {
	a := answers{b}
	return []check{
		{"items of a list do not repeat what kind they are", a.items},
		{"a dry run may name a version of what is not there, a creation may not", a.versions},
		{"a key that stands twice in YAML is taken, told or refused", a.twice},
		{"a question about rights has no table", a.table},
		{"a conversion is done or refused, never left out", a.conversion},
	}
}

// An answer as it came.
type answer struct {
	code     int
	body     string
	warnings []string
}

func (a answers) ask(ctx context.Context, method, path, body string, headers map[string]string) (answer, error) {
	client, err := rest.HTTPClientFor(a.config)
	if err != nil {
		return answer{}, err
	}
	request, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(a.config.Host, "/")+path, strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	for name, value := range headers {
		request.Header.Set(name, value)
	}
	response, err := client.Do(request)
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()
	read, err := io.ReadAll(response.Body)
	return answer{response.StatusCode, string(read), response.Header.Values("Warning")}, err
}

func (a answers) maps() string {
	return "/api/v1/namespaces/" + a.namespace + "/configmaps"
}

func (a answers) items(ctx context.Context) error {
	made := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "listed"}}
	if _, err := a.kube.CoreV1().ConfigMaps(a.namespace).Create(ctx, made, metav1.CreateOptions{}); err != nil {
		return err
	}
	got, err := a.ask(ctx, "GET", a.maps(), "", map[string]string{"Accept": "application/json"})
	if err != nil {
		return err
	}
	var list struct {
		Kind  string           `json:"kind"`
		Items []map[string]any `json:"items"`
	}
	if err := json.Unmarshal([]byte(got.body), &list); err != nil {
		return err
	}
	for _, item := range list.Items {
		if item["kind"] != nil || item["apiVersion"] != nil {
			return fmt.Errorf("an item says %v %v", item["apiVersion"], item["kind"])
		}
	}
	return first(
		expect(list.Kind == "ConfigMapList", "the list is a %s", list.Kind),
		expect(len(list.Items) > 0, "nothing is listed"),
	)
}

func (a answers) versions(ctx context.Context) error {
	maps := a.kube.CoreV1().ConfigMaps(a.namespace)
	versioned := func(name string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: "7"}}
	}
	dry := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	_, tried := maps.Create(ctx, versioned("versioned"), dry)
	_, made := maps.Create(ctx, versioned("versioned"), metav1.CreateOptions{})
	_, misnamed := maps.Create(ctx, versioned("Versioned"), metav1.CreateOptions{})
	return first(
		tried,
		expect(made != nil && strings.Contains(made.Error(), "resourceVersion should not be set"), "got %v", made),
		expect(apierrors.IsInvalid(misnamed), "what is wrong with the name comes first: %v", misnamed),
	)
}

func (a answers) twice(ctx context.Context) error {
	yaml := map[string]string{"Content-Type": "application/yaml", "Accept": "application/json"}
	sent := func(name, validation string) (answer, error) {
		body := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + "}\ndata:\n  k: a\n  k: b\n"
		return a.ask(ctx, "POST", a.maps()+"?fieldValidation="+validation, body, yaml)
	}
	ignored, err := sent("ignored", "Ignore")
	warned, second := sent("warned", "Warn")
	refused, third := sent("refused", "Strict")
	told := strings.Join(warned.warnings, " ")
	return first(
		err, second, third,
		expect(ignored.code == 201 && strings.Contains(ignored.body, `"k":"b"`), "ignored: %d %s", ignored.code, ignored.body),
		expect(len(ignored.warnings) == 0, "ignored, and told %v", ignored.warnings),
		expect(warned.code == 201 && strings.Contains(told, "already set in map"), "warned: %d %v", warned.code, warned.warnings),
		expect(refused.code == 400 && strings.Contains(refused.body, "already set in map"), "refused: %d %s", refused.code, refused.body),
	)
}

func (a answers) table(ctx context.Context) error {
	body := `{"apiVersion":"authorization.k8s.io/v1","kind":"SelfSubjectAccessReview","spec":{"resourceAttributes":{"verb":"get","resource":"pods"}}}`
	got, err := a.ask(ctx, "POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", body, map[string]string{
		"Content-Type": "application/json", "Accept": "application/json;as=Table;v=v1;g=meta.k8s.io",
	})
	return first(err, expect(got.code == 406, "got %d %s", got.code, got.body))
}

// Nobody listens where the webhook should be, so whoever takes the definition cannot convert.
func (a answers) conversion(ctx context.Context) error {
	definitions, err := apiextensions.NewForConfig(a.config)
	if err != nil {
		return err
	}
	version := func(name string, storage bool) apiextensionsv1.CustomResourceDefinitionVersion {
		open := &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: ptr.To(true)}
		return apiextensionsv1.CustomResourceDefinitionVersion{
			Name: name, Served: true, Storage: storage,
			Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: open},
		}
	}
	definition := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "converted.answers.example.com"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "answers.example.com",
			Scope: apiextensionsv1.ClusterScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{
				Plural: "converted", Singular: "convert", Kind: "Convert", ListKind: "ConvertList",
			},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{version("v1", true), version("v2", false)},
			Conversion: &apiextensionsv1.CustomResourceConversion{
				Strategy: apiextensionsv1.WebhookConverter,
				Webhook: &apiextensionsv1.WebhookConversion{
					ClientConfig:             &apiextensionsv1.WebhookClientConfig{URL: ptr.To("https://127.0.0.1:1/convert")},
					ConversionReviewVersions: []string{"v1"},
				},
			},
		},
	}
	all := definitions.ApiextensionsV1().CustomResourceDefinitions()
	_, err = all.Create(ctx, definition, metav1.CreateOptions{})
	if apierrors.IsInvalid(err) {
		return expect(strings.Contains(err.Error(), "spec.conversion"), "refused for something else: %v", err)
	}
	if err != nil {
		return err
	}
	defer all.Delete(context.WithoutCancel(ctx), definition.Name, metav1.DeleteOptions{})
	resource := func(version string) schema.GroupVersionResource {
		return schema.GroupVersionResource{Group: "answers.example.com", Version: version, Resource: "converted"}
	}
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "answers.example.com/v1", "kind": "Convert", "metadata": map[string]any{"name": "one"},
	}}
	made := func(ctx context.Context) (bool, error) {
		_, err := a.dynamic.Resource(resource("v1")).Create(ctx, object, metav1.CreateOptions{})
		return err == nil || apierrors.IsAlreadyExists(err), nil
	}
	if err := eventually(ctx, "the kind is served", made); err != nil {
		return err
	}
	_, err = a.dynamic.Resource(resource("v2")).Get(ctx, "one", metav1.GetOptions{})
	return expect(err != nil, "it was shown in another version, and nobody converted it")
}
