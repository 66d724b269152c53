// Takes a token to the console, which gives a cookie for it that no script can read.

const form = document.getElementById("form"), token = document.getElementById("token"), wrong = document.getElementById("wrong");

form.onsubmit = async (event) => {
  event.preventDefault();
  const button = form.querySelector("button");
  button.disabled = true;
  let why = "The console does not answer.";
  try {
    const answer = await fetch("/api/sign-in", { method: "POST", headers: { "content-type": "application/json", "x-flagship-verb": "1" }, body: JSON.stringify({ token: token.value }) });
    if (answer.ok) return location.reload();
    why = (await answer.json()).error;
  } catch { /* said below */ }
  button.disabled = false;
  wrong.textContent = why;
  wrong.hidden = false;
  token.select();
};
token.focus();
