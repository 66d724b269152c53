package main

import (
	"context"
	"fmt"
	"strings"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/managedfields"
	applyv1 "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/scale"
	"k8s.io/client-go/tools/pager"
	"k8s.io/client-go/util/retry"
	openapi "k8s.io/kube-openapi/pkg/util/proto"
	"k8s.io/utils/ptr"
)

// What typed clients send by themselves.
const protobuf = "application/vnd.kubernetes.protobuf"

type typed struct{ *bench }

// CRUD, patches, conflicts, apply and pages with the typed clientset.
func typedChecks(b *bench) []check {
	t := typed{b}
	return []check{
		{"the server tells its version and its kinds", t.discovery},
		{"its schemas are read in the older form, too", t.schemas},
		{"bodies are protobuf, answers JSON, over HTTP/2", t.wire},
		{"a client that insists on protobuf is understood", t.insists},
		{"a deployment is created, read, updated and deleted, zeros included", t.deployment},
		{"quantities, ports and times survive protobuf", t.special},
		{"a name that is taken and one that is not there are told apart", t.errors},
		{"three kinds of patches", t.patches},
		{"a stale update is a conflict, and ten writers that try again all arrive", t.conflicts},
		{"a status is written by its own path only", t.status},
		{"a scale is read and set, by kind and by resource", t.scale},
		{"an apply owns its fields, and another owner conflicts", t.apply},
		{"pages come from one state, and say how much is left", t.pages},
		{"a collection is deleted by label", t.collection},
		{"a deletion with another uid is refused", t.precondition},
		{"a dry run changes nothing", t.dryRun},
	}
}

func (t typed) discovery(context.Context) error {
	version, err := t.kube.Discovery().ServerVersion()
	if err != nil {
		return err
	}
	groups, lists, err := t.kube.Discovery().ServerGroupsAndResources()
	if err != nil {
		return err
	}
	found := map[string]bool{}
	for _, list := range lists {
		for _, one := range list.APIResources {
			found[list.GroupVersion+"/"+one.Name] = true
		}
	}
	resources, err := restmapper.GetAPIGroupResources(t.kube.Discovery())
	if err != nil {
		return err
	}
	mapper := restmapper.NewShortcutExpander(
		restmapper.NewDiscoveryRESTMapper(resources), t.kube.Discovery(), nil)
	kind, err := mapper.KindFor(fleet("crp"))
	return first(
		err,
		expect(version.Major == "1", "the major version is %q", version.Major),
		expect(len(groups) > 10, "%d groups", len(groups)),
		expect(found["v1/pods/eviction"], "no pods/eviction"),
		expect(found["apps/v1/deployments/scale"], "no deployments/scale"),
		expect(found["placement.kubernetes-fleet.io/v1/clusterresourceplacements"], "no placements"),
		expect(kind.Kind == "ClusterResourcePlacement", "crp is %v", kind),
	)
}

// As tools that compare objects by their schemas do.
func (t typed) schemas(context.Context) error {
	document, err := t.kube.Discovery().OpenAPISchema()
	if err != nil {
		return err
	}
	models, err := openapi.NewOpenAPIData(document)
	if err != nil {
		return err
	}
	parser, err := managedfields.NewGVKParser(models, false)
	if err != nil {
		return err
	}
	placement := parser.Type(fleet("").GroupVersion().WithKind("ClusterResourcePlacement"))
	deployment := parser.Type(appsv1.SchemeGroupVersion.WithKind("Deployment"))
	return first(
		expect(placement != nil && placement.IsValid(), "no schema of placements"),
		expect(deployment != nil && deployment.IsValid(), "no schema of deployments"),
	)
}

func (t typed) configMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: t.namespace},
		Data:       map[string]string{"color": "red"},
	}
}

func (t typed) wire(ctx context.Context) error {
	maps := t.kube.CoreV1().ConfigMaps(t.namespace)
	if _, err := maps.Create(ctx, t.configMap("wire"), metav1.CreateOptions{}); err != nil {
		return err
	}
	posted := t.traffic.last("POST")
	found, err := maps.Get(ctx, "wire", metav1.GetOptions{})
	return first(
		err,
		expect(posted.sent == protobuf, "sent %q", posted.sent),
		expect(strings.HasPrefix(posted.asked, protobuf), "asked for %q", posted.asked),
		expect(posted.protocol == "HTTP/2.0", "over %s", posted.protocol),
		expect(found.Data["color"] == "red", "got %v", found.Data),
		expect(found.UID != "" && !found.CreationTimestamp.IsZero(), "got %v", found.ObjectMeta),
	)
}

// As components of Kubernetes are configured.
func (t typed) insists(ctx context.Context) error {
	config := rest.CopyConfig(t.config)
	config.ContentType = protobuf
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	made := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "insists"},
		Data:       map[string][]byte{"key": {0, 255, 1}},
		StringData: map[string]string{"word": "eve"},
	}
	secrets := kube.CoreV1().Secrets(t.namespace)
	if _, err := secrets.Create(ctx, made, metav1.CreateOptions{}); err != nil {
		return err
	}
	found, err := secrets.Get(ctx, "insists", metav1.GetOptions{})
	if err != nil {
		return err
	}
	options := metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationForeground)}
	return first(
		expect(string(found.Data["key"]) == "\x00\xff\x01", "got %v", found.Data),
		expect(string(found.Data["word"]) == "eve", "got %v", found.Data),
		expect(found.Type == corev1.SecretTypeOpaque, "got type %q", found.Type),
		secrets.Delete(ctx, "insists", options),
	)
}

func (t typed) deployment(ctx context.Context) error {
	made := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Labels: map[string]string{"app": "web"}},
		Spec: appsv1.DeploymentSpec{
			// A zero that means something.
			Replicas: ptr.To(int32(0)),
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web:1"}}},
			},
		},
	}
	deployments := t.kube.AppsV1().Deployments(t.namespace)
	created, err := deployments.Create(ctx, made, metav1.CreateOptions{FieldManager: "go"})
	if err != nil {
		return err
	}
	err = first(
		expect(ptr.Deref(created.Spec.Replicas, -1) == 0, "%v replicas", created.Spec.Replicas),
		expect(created.Generation == 1, "generation %d", created.Generation),
		expect(ptr.Deref(created.Spec.RevisionHistoryLimit, -1) == 10, "no defaults"),
		expect(created.ManagedFields[0].Manager == "go", "managed by %v", created.ManagedFields),
	)
	if err != nil {
		return err
	}
	err = retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		found, err := deployments.Get(ctx, "web", metav1.GetOptions{})
		if err != nil {
			return err
		}
		found.Spec.Template.Spec.Containers[0].Image = "web:2"
		updated, err := deployments.Update(ctx, found, metav1.UpdateOptions{})
		return first(err, expect(err != nil || updated.Generation == 2, "generation %d", updated.Generation))
	})
	if err != nil {
		return err
	}
	listed, err := deployments.List(ctx, metav1.ListOptions{LabelSelector: "app=web"})
	if err != nil {
		return err
	}
	if err := expect(len(listed.Items) == 1, "%d listed", len(listed.Items)); err != nil {
		return err
	}
	policy := metav1.DeletePropagationBackground
	if err := deployments.Delete(ctx, "web", metav1.DeleteOptions{PropagationPolicy: &policy}); err != nil {
		return err
	}
	return eventually(ctx, "the deployment goes", func(ctx context.Context) (bool, error) {
		_, err := deployments.Get(ctx, "web", metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil
	})
}

// Types that protobuf has in a way of its own.
func (t typed) special(ctx context.Context) error {
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "special"},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app": "web"},
			Ports: []corev1.ServicePort{
				{Name: "number", Port: 80, TargetPort: intstr.FromInt32(8080)},
				{Name: "name", Port: 81, TargetPort: intstr.FromString("http")},
			},
		},
	}
	found, err := t.kube.CoreV1().Services(t.namespace).Create(ctx, service, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	quota := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "special"},
		Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{
			corev1.ResourceLimitsMemory: resource.MustParse("1536Mi"),
			corev1.ResourceRequestsCPU:  resource.MustParse("1500m"),
		}},
	}
	limits, err := t.kube.CoreV1().ResourceQuotas(t.namespace).Create(ctx, quota, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	cpu, memory := limits.Spec.Hard[corev1.ResourceRequestsCPU], limits.Spec.Hard[corev1.ResourceLimitsMemory]
	return first(
		expect(found.Spec.Ports[0].TargetPort.IntVal == 8080, "ports %v", found.Spec.Ports),
		expect(found.Spec.Ports[1].TargetPort.StrVal == "http", "ports %v", found.Spec.Ports),
		expect(cpu.MilliValue() == 1500, "%s", cpu.String()),
		expect(memory.Value() == 1536<<20, "%s", memory.String()),
		t.kube.CoreV1().ResourceQuotas(t.namespace).Delete(ctx, "special", metav1.DeleteOptions{}),
	)
}

func (t typed) errors(ctx context.Context) error {
	maps := t.kube.CoreV1().ConfigMaps(t.namespace)
	_, taken := maps.Create(ctx, t.configMap("wire"), metav1.CreateOptions{})
	_, missing := maps.Get(ctx, "nothing", metav1.GetOptions{})
	_, nowhere := t.kube.CoreV1().ConfigMaps("nowhere").Create(ctx, t.elsewhere(), metav1.CreateOptions{})
	_, wrong := maps.Create(ctx, t.configMap("Wrong_Name"), metav1.CreateOptions{})
	return first(
		expect(apierrors.IsAlreadyExists(taken), "taken: %v", taken),
		expect(apierrors.IsNotFound(missing), "missing: %v", missing),
		expect(apierrors.IsNotFound(nowhere), "no namespace: %v", nowhere),
		expect(apierrors.IsInvalid(wrong), "wrong: %v", wrong),
		expect(apierrors.HasStatusCause(wrong, metav1.CauseTypeFieldValueInvalid), "wrong: %v", wrong),
	)
}

func (t typed) elsewhere() *corev1.ConfigMap {
	made := t.configMap("elsewhere")
	made.Namespace = "nowhere"
	return made
}

func (t typed) patches(ctx context.Context) error {
	maps := t.kube.CoreV1().ConfigMaps(t.namespace)
	for kind, patch := range map[types.PatchType]string{
		types.JSONPatchType:           `[{"op":"add","path":"/data/json","value":"1"}]`,
		types.MergePatchType:          `{"data":{"merge":"2"}}`,
		types.StrategicMergePatchType: `{"data":{"strategic":"3"}}`,
	} {
		if _, err := maps.Patch(ctx, "wire", kind, []byte(patch), metav1.PatchOptions{}); err != nil {
			return err
		}
	}
	found, err := maps.Get(ctx, "wire", metav1.GetOptions{})
	said := fmt.Sprint(found.Data)
	return first(err, expect(said == "map[color:red json:1 merge:2 strategic:3]", "got %s", said))
}

func (t typed) conflicts(ctx context.Context) error {
	maps := t.kube.CoreV1().ConfigMaps(t.namespace)
	first, err := maps.Create(ctx, t.configMap("counter"), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	stale := first.DeepCopy()
	first.Data["count"] = "0"
	if _, err := maps.Update(ctx, first, metav1.UpdateOptions{}); err != nil {
		return err
	}
	if _, err := maps.Update(ctx, stale, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		return fmt.Errorf("a stale update got %v", err)
	}
	var writers sync.WaitGroup
	errs := make([]error, 10)
	patient := retry.DefaultBackoff
	patient.Steps = 200
	patient.Factor = 1.1
	for at := range errs {
		writers.Add(1)
		go func() {
			defer writers.Done()
			errs[at] = retry.RetryOnConflict(patient, func() error {
				found, err := maps.Get(ctx, "counter", metav1.GetOptions{})
				if err != nil {
					return err
				}
				found.Data["count"] += "+1"
				_, err = maps.Update(ctx, found, metav1.UpdateOptions{})
				return err
			})
		}()
	}
	writers.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	found, err := maps.Get(ctx, "counter", metav1.GetOptions{})
	if err != nil {
		return err
	}
	return expect(strings.Count(found.Data["count"], "+1") == 10, "got %q", found.Data["count"])
}

func (t typed) status(ctx context.Context) error {
	claims := t.kube.CoreV1().PersistentVolumes()
	made := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: t.namespace},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:               corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			AccessModes:            []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/tmp"}},
		},
	}
	if _, err := claims.Create(ctx, made, metav1.CreateOptions{}); err != nil {
		return err
	}
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		found, err := claims.Get(ctx, made.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		found.Status.Message = "by the main path"
		found, err = claims.Update(ctx, found, metav1.UpdateOptions{})
		if err != nil {
			return err
		}
		if err := expect(found.Status.Message == "", "the main path wrote a status"); err != nil {
			return err
		}
		found.Status.Message = "by its own path"
		found.Labels = map[string]string{"by": "status"}
		found, err = claims.UpdateStatus(ctx, found, metav1.UpdateOptions{})
		if err != nil {
			return err
		}
		return expect(found.Status.Message == "by its own path", "got %q", found.Status.Message)
	})
	return first(err, claims.Delete(ctx, made.Name, metav1.DeleteOptions{}))
}

func (t typed) scale(ctx context.Context) error {
	sets := t.kube.AppsV1().ReplicaSets(t.namespace)
	made := &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: "scaled"},
		Spec: appsv1.ReplicaSetSpec{
			Replicas: ptr.To(int32(0)),
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "scaled"}},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "scaled"}},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "a"}}},
			},
		},
	}
	if _, err := sets.Create(ctx, made, metav1.CreateOptions{}); err != nil {
		return err
	}
	wanted := &autoscalingv1.Scale{
		ObjectMeta: metav1.ObjectMeta{Name: "scaled", Namespace: t.namespace},
		Spec:       autoscalingv1.ScaleSpec{Replicas: 1},
	}
	set, err := sets.UpdateScale(ctx, "scaled", wanted, metav1.UpdateOptions{})
	if err != nil {
		return err
	}
	resources, err := restmapper.GetAPIGroupResources(t.kube.Discovery())
	if err != nil {
		return err
	}
	resolver := scale.NewDiscoveryScaleKindResolver(t.kube.Discovery())
	mapper := restmapper.NewDiscoveryRESTMapper(resources)
	scales, err := scale.NewForConfig(t.config, mapper, dynamic.LegacyAPIPathResolverFunc, resolver)
	if err != nil {
		return err
	}
	which := appsv1.Resource("replicasets")
	seen, err := scales.Scales(t.namespace).Get(ctx, which, "scaled", metav1.GetOptions{})
	if err != nil {
		return err
	}
	seen.Spec.Replicas = 0
	back, err := scales.Scales(t.namespace).Update(ctx, which, seen, metav1.UpdateOptions{})
	if apierrors.IsConflict(err) {
		// A controller counted replicas in between.
		seen.ResourceVersion = ""
		back, err = scales.Scales(t.namespace).Update(ctx, which, seen, metav1.UpdateOptions{})
	}
	return first(
		err,
		expect(set.Spec.Replicas == 1, "set to %d", set.Spec.Replicas),
		expect(seen.Status.Selector == "app=scaled", "selector %q", seen.Status.Selector),
		expect(err != nil || back.Spec.Replicas == 0, "back to %v", back),
		sets.Delete(ctx, "scaled", metav1.DeleteOptions{}),
	)
}

func (t typed) apply(ctx context.Context) error {
	maps := t.kube.CoreV1().ConfigMaps(t.namespace)
	wanted := func(color string) *applyv1.ConfigMapApplyConfiguration {
		return applyv1.ConfigMap("applied", t.namespace).WithData(map[string]string{"color": color})
	}
	red, err := maps.Apply(ctx, wanted("red"), metav1.ApplyOptions{FieldManager: "one"})
	if err != nil {
		return err
	}
	_, refused := maps.Apply(ctx, wanted("blue"), metav1.ApplyOptions{FieldManager: "two"})
	blue, err := maps.Apply(ctx, wanted("blue"), metav1.ApplyOptions{FieldManager: "two", Force: true})
	if err != nil {
		return err
	}
	owned, err := applyv1.ExtractConfigMap(blue, "two")
	if err != nil {
		return err
	}
	lost, err := applyv1.ExtractConfigMap(blue, "one")
	return first(
		err,
		expect(red.Data["color"] == "red" && blue.Data["color"] == "blue", "got %v", blue.Data),
		expect(apierrors.IsConflict(refused), "another owner: %v", refused),
		expect(apierrors.HasStatusCause(refused, metav1.CauseTypeFieldManagerConflict), "no cause"),
		expect(owned.Data["color"] == "blue", "two owns %v", owned.Data),
		expect(len(lost.Data) == 0, "one owns %v", lost.Data),
	)
}

func (t typed) pages(ctx context.Context) error {
	maps := t.kube.CoreV1().ConfigMaps(t.namespace)
	for at := range 25 {
		made := t.configMap(fmt.Sprintf("page-%02d", at))
		made.Labels = map[string]string{"of": "pages"}
		if _, err := maps.Create(ctx, made, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	var sizes, left []int64
	var revisions []string
	options := metav1.ListOptions{Limit: 10, LabelSelector: "of=pages"}
	for {
		page, err := maps.List(ctx, options)
		if err != nil {
			return err
		}
		sizes = append(sizes, int64(len(page.Items)))
		revisions = append(revisions, page.ResourceVersion)
		if options.Continue = page.Continue; options.Continue == "" {
			break
		}
		// What comes while somebody reads is not of this list.
		late := t.configMap(fmt.Sprintf("page-%02d-late", len(sizes)*10))
		late.Labels = map[string]string{"of": "pages"}
		if _, err := maps.Create(ctx, late, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	// How much is left is known only without selectors.
	whole, err := maps.List(ctx, metav1.ListOptions{Limit: 5})
	if err != nil {
		return err
	}
	left = append(left, ptr.Deref(whole.RemainingItemCount, -1))
	count := 0
	all := pager.New(pager.SimplePageFunc(func(options metav1.ListOptions) (runtime.Object, error) {
		return maps.List(ctx, options)
	}))
	all.PageSize = 7
	options = metav1.ListOptions{LabelSelector: labels.Set{"of": "pages"}.String()}
	err = all.EachListItem(ctx, options, func(object runtime.Object) error {
		_, err := meta.Accessor(object)
		count++
		return err
	})
	return first(
		err,
		expect(fmt.Sprint(sizes) == "[10 10 5]", "pages of %v", sizes),
		expect(revisions[0] == revisions[2], "from %v", revisions),
		expect(left[0] > 20, "left %v", left),
		expect(count == 27, "%d counted", count),
	)
}

func (t typed) collection(ctx context.Context) error {
	maps := t.kube.CoreV1().ConfigMaps(t.namespace)
	chosen := metav1.ListOptions{LabelSelector: "of=pages"}
	if err := maps.DeleteCollection(ctx, metav1.DeleteOptions{}, chosen); err != nil {
		return err
	}
	gone, err := maps.List(ctx, chosen)
	if err != nil {
		return err
	}
	kept, err := maps.List(ctx, metav1.ListOptions{})
	return first(
		err,
		expect(len(gone.Items) == 0, "%d are left", len(gone.Items)),
		expect(len(kept.Items) > 0, "all are gone"),
	)
}

func (t typed) precondition(ctx context.Context) error {
	maps := t.kube.CoreV1().ConfigMaps(t.namespace)
	other := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: ptr.To(types.UID("other"))}}
	err := maps.Delete(ctx, "wire", other)
	return first(
		expect(apierrors.IsConflict(err), "another uid: %v", err),
		maps.Delete(ctx, "wire", metav1.DeleteOptions{}),
	)
}

func (t typed) dryRun(ctx context.Context) error {
	maps := t.kube.CoreV1().ConfigMaps(t.namespace)
	options := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	shown, err := maps.Create(ctx, t.configMap("dry"), options)
	if err != nil {
		return err
	}
	_, missing := maps.Get(ctx, "dry", metav1.GetOptions{})
	return first(
		expect(shown.UID != "", "no uid"),
		expect(apierrors.IsNotFound(missing), "it is there: %v", missing),
	)
}
