package main

import (
	"context"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
)

type rights struct{ *bench }

// Tokens, reviews, roles and impersonation.
func rightsChecks(b *bench) []check {
	r := rights{b}
	return []check{
		{"a token is requested, reviewed and lets in", r.token},
		{"a role allows what it names, and nothing else", r.role},
		{"who acts as another has the rights of that other", r.impersonation},
		{"nobody gets in with a wrong token", r.wrong},
	}
}

func (r rights) token(ctx context.Context) error {
	accounts := r.kube.CoreV1().ServiceAccounts(r.namespace)
	robot := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "robot"}}
	if _, err := accounts.Create(ctx, robot, metav1.CreateOptions{}); err != nil {
		return err
	}
	kube, token, err := r.asRobot(ctx)
	if err != nil {
		return err
	}
	who, err := kube.AuthenticationV1().SelfSubjectReviews().Create(
		ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}
	review, err = r.kube.AuthenticationV1().TokenReviews().Create(ctx, review, metav1.CreateOptions{})
	name := "system:serviceaccount:" + r.namespace + ":robot"
	return first(
		err,
		expect(who.Status.UserInfo.Username == name, "I am %q", who.Status.UserInfo.Username),
		expect(slices.Contains(who.Status.UserInfo.Groups, "system:serviceaccounts"), "no group"),
		expect(err != nil || review.Status.Authenticated, "not authenticated: %v", review.Status.Error),
		expect(err != nil || review.Status.User.Username == name, "it is %q", review.Status.User.Username),
	)
}

func (r rights) asRobot(ctx context.Context) (kubernetes.Interface, string, error) {
	request := &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To(int64(3600))},
	}
	accounts := r.kube.CoreV1().ServiceAccounts(r.namespace)
	made, err := accounts.CreateToken(ctx, "robot", request, metav1.CreateOptions{})
	if err != nil {
		return nil, "", err
	}
	config := rest.AnonymousClientConfig(r.config)
	config.BearerToken = made.Status.Token
	kube, err := kubernetes.NewForConfig(config)
	return kube, made.Status.Token, err
}

func (r rights) role(ctx context.Context) error {
	role := &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Name: "reader"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"list"}}},
	}
	if _, err := r.kube.RbacV1().Roles(r.namespace).Create(ctx, role, metav1.CreateOptions{}); err != nil {
		return err
	}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "readers"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "reader"},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Name: "robot", Namespace: r.namespace}},
	}
	if _, err := r.kube.RbacV1().RoleBindings(r.namespace).Create(ctx, binding, metav1.CreateOptions{}); err != nil {
		return err
	}
	kube, _, err := r.asRobot(ctx)
	if err != nil {
		return err
	}
	err = eventually(ctx, "the role counts", func(ctx context.Context) (bool, error) {
		_, err := kube.CoreV1().ConfigMaps(r.namespace).List(ctx, metav1.ListOptions{})
		return err == nil, nil
	})
	if err != nil {
		return err
	}
	_, refused := kube.CoreV1().Secrets(r.namespace).List(ctx, metav1.ListOptions{})
	said := `cannot list resource "secrets" in API group "" in the namespace "` + r.namespace + `"`
	ask := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: r.namespace, Verb: "list", Resource: "configmaps",
		},
	}}
	answer, err := kube.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, ask, metav1.CreateOptions{})
	return first(
		err,
		expect(apierrors.IsForbidden(refused), "secrets: %v", refused),
		expect(strings.Contains(refused.Error(), said), "secrets: %v", refused),
		expect(err != nil || answer.Status.Allowed, "may not: %v", answer.Status.Reason),
	)
}

func (r rights) impersonation(ctx context.Context) error {
	config := rest.CopyConfig(r.config)
	config.Impersonate = rest.ImpersonationConfig{
		UserName: "ann", Groups: []string{"devs"}, Extra: map[string][]string{"why": {"a test"}},
	}
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	who, err := kube.AuthenticationV1().SelfSubjectReviews().Create(
		ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	_, refused := kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	user := who.Status.UserInfo
	return first(
		expect(user.Username == "ann" && slices.Contains(user.Groups, "devs"), "I am %v", user),
		expect(len(user.Extra["why"]) == 1, "extra is %v", user.Extra),
		expect(apierrors.IsForbidden(refused), "nodes: %v", refused),
	)
}

func (r rights) wrong(ctx context.Context) error {
	config := rest.AnonymousClientConfig(r.config)
	config.BearerToken = "wrong"
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	_, err = kube.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
	return expect(apierrors.IsUnauthorized(err), "got %v", err)
}
