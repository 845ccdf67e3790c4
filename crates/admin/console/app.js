"use strict";
// Shows what /api/overview says, every second.
async function show() {
  const answer = await fetch("/api/overview");
  document.getElementById("overview").textContent = JSON.stringify(await answer.json(), null, 2);
}
show();
setInterval(show, 1000);
